package ledger

import "testing"

// TestKeeperIsWoken: the keeper is woken by the first write after idle time and
// by those that may have filled the WAL, and by no other.
func TestKeeperIsWoken(t *testing.T) {
	k := &keeper{wake: make(chan struct{}, 1)}
	k.asleep.Store(true)
	k.due.Store(3)
	written := func(want bool) {
		t.Helper()
		k.wrote()
		if woken := len(k.wake) == 1; woken != want {
			t.Errorf("write %d: woken is %t", k.writes.Load(), woken)
		}
		if len(k.wake) == 1 {
			<-k.wake
		}
	}
	written(true)
	written(false)
	if n := k.fallAsleep(1); n != 2 || k.asleep.Load() {
		t.Errorf("written meanwhile: %d writes, asleep %t", n, k.asleep.Load())
	}
	written(true)
	written(true)
	k.due.Store(9)
	if n := k.fallAsleep(4); n != 4 || !k.asleep.Load() {
		t.Errorf("idle: %d writes, asleep %t", n, k.asleep.Load())
	}
	written(true)
	written(false)
}
