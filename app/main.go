// Command holdfast is the program: the proxy, the inspector and the commands
// that talk to them. This package is the composition root: flags and commands,
// paths, reading and watching config.toml, the single-instance lock, and App,
// which owns everything that runs.
//
// Without a desktop (build tag headless) the bare command is serve.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// gcPercent lets the heap grow to five times what is live before it is
// collected. Live is a few megabytes of caches while each request passes
// through a megabyte or more, so the default collects every other request, on
// the path of the next one. At rest the memory goes back to the system.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr, os.Getenv})
	stop()
	os.Exit(code)
}
