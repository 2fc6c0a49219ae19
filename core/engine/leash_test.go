//go:build linux || windows

package engine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// leashRole is set in the processes that TestLeash starts.
const leashRole = "HOLDFAST_TEST_LEASH"

// TestLeash: a process that is killed takes its child along. Both write to one
// pipe, whose end says that both are gone. As a Windows program `go run ./build
// nightly` runs it under wine.
func TestLeash(t *testing.T) {
	switch os.Getenv(leashRole) {
	case "parent":
		leashParent(t)
	case "child":
		fmt.Println("running")
		time.Sleep(time.Minute) // what is left alone ends by itself
		fmt.Println("left")
		return
	}
	parent := leashed("parent")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "running\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("the child outlived its parent and said %q, %v", rest, err)
	}
	parent.Wait() // it was killed
}

// leashParent starts a child and never ends by itself.
func leashParent(t *testing.T) {
	runtime.LockOSThread()
	child := leashed("child")
	child.Stdout = os.Stdout
	if _, err := startLeashed(child); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	t.Fatal("the child ended first")
}

// leashed is this program in a role.
func leashed(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestLeash$")
	cmd.Env = append(os.Environ(), leashRole+"="+role)
	return cmd
}
