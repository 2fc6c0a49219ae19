package tier

import (
	"syscall"
	"testing"

	"holdfast/core/content"
)

// Only the goroutine that asks for it steps behind.
func TestStepBehind(t *testing.T) {
	before, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0) // the system says 20 less
	must(t, err)
	got := make(chan int)
	go func() {
		stepBehind()
		now, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		got <- now
	}()
	if now := <-got; now != max(before-behindBy, 1) {
		t.Errorf("%d, was %d", now, before)
	}
	after := make(chan int)
	go func() {
		now, _ := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		after <- now
	}()
	if now := <-after; now != before {
		t.Errorf("another goroutine has %d, was %d", now, before)
	}
}

// What a spill writes is written behind as well.
func TestPipeStepsBehind(t *testing.T) {
	before, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	must(t, err)
	now := 0
	p := startPipe(func(content.ID, []byte) (err error) {
		now, err = syscall.Getpriority(syscall.PRIO_PROCESS, 0)
		return err
	}, &watcher{})
	must(t, p.send(content.ID{1}, []byte("a block")))
	must(t, p.close())
	if now != max(before-behindBy, 1) {
		t.Errorf("written at %d, was %d", now, before)
	}
}
