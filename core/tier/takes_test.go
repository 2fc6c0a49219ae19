package tier

import (
	"errors"
	"testing"

	"holdfast/core/kv"
)

// TestTakes: who has a state to spill can ask whether it would be taken up, so
// that the engine is not made to write what is dropped.
func TestTakes(t *testing.T) {
	l := newLab(t, setup{})
	if !l.Takes() {
		t.Error("an idle tier takes nothing")
	}
	hold, began, done := make(chan struct{}), make(chan struct{}, 9), make(chan error, 9)
	l.eng.before = func() error { began <- struct{}{}; <-hold; return nil }
	for c := range 3 {
		l.eng.hold(c, talk(c, 640))
		must(t, l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Slot: c, Tokens: talk(c, 640), Done: func(_ Spilled, err error) { done <- err }}))
		if c == 0 {
			<-began // the worker has it, and two fill the queue
		}
	}
	if l.Takes() {
		t.Error("a full queue takes more")
	}
	close(hold)
	for range 3 {
		must(t, <-done)
	}
	if !l.Takes() {
		t.Error("an emptied queue takes nothing")
	}
	tight := roomy()
	tight.Reserve = 1 << 60
	l.SetLimits(t.Context(), tight) // says that there is no room
	if _, err := l.spill(5, talk(5, 640)); err == nil || l.Takes() {
		t.Errorf("without room: %v, takes %v", err, l.Takes())
	}
	off, err := Open(t.Context(), Options{})
	must(t, err)
	if off.Takes() {
		t.Error("a tier that is off takes something")
	}
}

// TestSlotInUse: a slot that moved on before its turn is no trouble of the store,
// and nobody is told of one.
func TestSlotInUse(t *testing.T) {
	l := newLab(t, setup{})
	l.eng.before = func() error { return ErrSlotInUse }
	if _, err := l.spill(0, talk(1, 640)); !errors.Is(err, ErrSlotInUse) {
		t.Errorf("%v", err)
	}
	if s := l.Status(); s.Activity.LastError != "" || s.Effective.State != kv.StateActive {
		t.Errorf("%q, %+v", s.Activity.LastError, s.Effective)
	}
}
