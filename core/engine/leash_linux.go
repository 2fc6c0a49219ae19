package engine

import (
	"os/exec"
	"syscall"
)

// leash makes the child end when the thread that starts it does, so that it
// never outlives us, not even after kill -9; signals from the terminal are ours
// alone, or Ctrl-C would end it before its slots are saved.
func leash(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
