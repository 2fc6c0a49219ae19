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
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr, os.Getenv})
	stop()
	os.Exit(code)
}
