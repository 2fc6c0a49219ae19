//go:build !linux && !windows

package engine

import (
	"os/exec"
	"syscall"
)

// startLeashed is Linux's without the leash: these systems, macOS among them,
// have nothing that ends a child with its parent, and a helper that watched both
// could be killed as well. Close ends the child. One that a crash of ours leaves
// behind holds memory until it is ended by hand, and nothing else: the next one
// gets a port, a key and a hand-over folder of its own.
func startLeashed(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() {}, cmd.Start()
}
