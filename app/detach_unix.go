//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach lets a child outlive this terminal: a session of its own, no input or
// output.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
