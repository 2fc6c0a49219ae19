package tier

import (
	"runtime"
	"syscall"
)

// behindBy is how much nicer the spill worker is than the rest of the program: a
// third of the weight of an engine's thread. On a machine whose cores are all
// computing, a worker of equal weight takes half of one, and every token waits for
// the slower half. More would let whoever waits for a lock of the worker's wait
// long.
const behindBy = 5

// stepBehind lets everything else go before the calling goroutine, which keeps its
// system thread to its end. Where the system refuses, it works as before.
func stepBehind() {
	runtime.LockOSThread()
	const thisThread = 0
	now, err := syscall.Getpriority(syscall.PRIO_PROCESS, thisThread) // the system says 20 less
	if err == nil {
		syscall.Setpriority(syscall.PRIO_PROCESS, thisThread, min(20-now+behindBy, 19))
	}
}
