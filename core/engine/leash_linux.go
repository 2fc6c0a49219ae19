package engine

import (
	"os/exec"
	"syscall"
)

// startLeashed starts a child that ends when the thread that started it does, so
// that it never outlives us, not even after kill -9; signals from the terminal
// are ours alone, or Ctrl-C would end it before its slots are saved. Release
// is called once the child has ended, or may.
func startLeashed(cmd *exec.Cmd) (release func(), err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return func() {}, cmd.Start()
}
