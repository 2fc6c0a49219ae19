package tier

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
	"holdfast/storage/segment"
)

// valve is a store whose reads or sweeps wait until they are let through.
type valve struct {
	*segment.Store
	reads, sweeps chan struct{} // nil lets everything through
	began         chan string
}

func newValve() *valve { return &valve{began: make(chan string, 100)} }

func (v *valve) Read(ctx context.Context, ids []content.ID, use func(int, []byte) error) error {
	if v.reads != nil {
		v.began <- "read"
		<-v.reads
	}
	return v.Store.Read(ctx, ids, use)
}

func (v *valve) DropPack(id content.ID, wanted func(content.ID) bool) (int64, error) {
	if v.sweeps != nil {
		v.began <- "drop"
		<-v.sweeps
	}
	return v.Store.DropPack(id, wanted)
}

func (v *valve) wrap(s *segment.Store) (Segments, Manifests) {
	v.Store = s
	return v, s
}

// TestOneReadOneWrite: of a hundred equal prompts one reads, and of a hundred
// equal states one is written.
func TestOneReadOneWrite(t *testing.T) {
	v := newValve()
	l := newLab(t, setup{wrap: v.wrap})
	tokens := talk(1, 1000)
	hold := make(chan struct{})
	l.eng.before = func() error { <-hold; return nil }
	l.eng.hold(0, tokens)
	done := make(chan error, 100)
	queued := 0
	for range 100 {
		err := l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Tokens: tokens, Done: func(_ Spilled, err error) { done <- err }})
		switch {
		case err == nil:
			queued++
		case !errors.Is(err, &Refusal{Reason: ReasonInFlight}):
			t.Fatal(err)
		}
	}
	close(hold)
	must(t, <-done)
	if s := l.Status(); queued != 1 || s.Activity.Writes != 1 || l.eng.saves != 1 {
		t.Errorf("%d were queued, %d written, %d saved", queued, s.Activity.Writes, l.eng.saves)
	}
	if err := l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Tokens: tokens}); !errors.Is(err, &Refusal{Reason: ReasonStored}) {
		t.Errorf("K49 stored once more: %v", err)
	}

	v.reads = make(chan struct{})
	hits := make([]*Hit, 100)
	for i := range hits {
		hits[i] = l.lookup(tokens)
		hits[i].Offer.Prefill = time.Hour // the losers wait for half of it
	}
	results := make(chan error, len(hits))
	for i, h := range hits {
		go func() {
			path := filepath.Join(l.eng.dir, fmt.Sprint("one-", i))
			f, err := l.Fill(context.Background(), h, path, slotfile.Target{Streams: 1})
			if err == nil {
				err = errors.Join(os.Remove(path), l.Settle(f, Restored, f.Tokens, time.Millisecond))
			}
			results <- err
		}()
	}
	<-v.began
	for l.losers() < 99 {
		time.Sleep(time.Millisecond)
	}
	close(v.reads)
	won := 0
	for range hits {
		err := <-results
		var miss *Miss
		switch {
		case err == nil:
			won++
		case !errors.As(err, &miss) || miss.Reason != kv.MissFillInFlight || !miss.Elsewhere:
			t.Fatal(err)
		}
	}
	if s := l.Status(); won != 1 || s.Activity.Fills != 1 || s.Activity.Misses[kv.MissFillInFlight] != 99 {
		t.Errorf("%d won, %d fills, %v", won, s.Activity.Fills, s.Activity.Misses)
	}
	t.Run("a loser that cannot wait goes cold", func(t *testing.T) {
		v.reads = nil
		a, b := l.lookup(tokens), l.lookup(tokens)
		b.Offer.Prefill = 1
		f, path, err := l.take(a)
		must(t, err)
		_, _, err = l.take(b)
		var miss *Miss
		if !errors.As(err, &miss) || miss.Reason != kv.MissFillInFlight || miss.Elsewhere {
			t.Errorf("got %v", err)
		}
		must(t, os.Remove(path))
		must(t, l.Settle(f, SlotTaken, 0, 0))
	})
	l.exact()
}

// losers is how many fills found another one under way.
func (l *lab) losers() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.claims {
		n += c.losers
	}
	return n
}

// TestKV44TwoIdentities: equal bytes under two identities do not keep each other
// out, and are stored once.
func TestKV44TwoIdentities(t *testing.T) {
	l := newLab(t, setup{})
	tokens := talk(1, 640)
	_, err := l.spill(0, tokens)
	must(t, err)
	out, err := l.spill(0, tokens, func(r *Request) { r.Model, r.State = model(2), state(2) })
	must(t, err)
	if s := l.Status(); out.Payload != 0 || s.Usage.Manifests != 2 || s.Usage.UniqueSegments != 10 {
		t.Errorf("KV54 %+v, %+v", out, s.Usage)
	}
	a, b := l.lookup(tokens), l.Lookup(Query{Model: model(2), State: state(2), Tokens: tokens})
	fa, pa, err := l.take(a)
	must(t, err)
	fb, pb, err := l.take(b)
	must(t, err)
	must(t, errors.Join(os.Remove(pa), os.Remove(pb)))
	must(t, l.Settle(fa, Restored, 576, 0))
	must(t, l.Settle(fb, Restored, 576, 0))
	// Clearing one leaves the other whole.
	m1 := model(1)
	_, err = l.Clear(context.Background(), &m1, false)
	must(t, err)
	if h := l.Lookup(Query{Model: model(2), State: state(2), Tokens: tokens}); !h.Found() {
		t.Errorf("KV54 the other went as well: %s", h.Miss)
	} else {
		h.Release()
	}
	l.exact()
}

// TestKV62StatusDuringAClear: the clear stands still, and status answers.
func TestKV62StatusDuringAClear(t *testing.T) {
	v := newValve()
	l := newLab(t, setup{wrap: v.wrap})
	_, err := l.spill(0, talk(1, 640))
	must(t, err)
	v.sweeps = make(chan struct{})
	cleared := make(chan error)
	go func() {
		_, err := l.Clear(context.Background(), nil, false)
		cleared <- err
	}()
	<-v.began
	for range 100 {
		if s := l.Status(); s.Effective.State != kv.StatePruningToBudget {
			t.Fatalf("during a clear the state is %s", s.Effective.State)
		}
	}
	t.Run("fills decline at once", func(t *testing.T) {
		h := &Hit{Manifest: kv.ManifestID{1}, Tokens: 64} // as found a moment before
		_, err := l.Fill(context.Background(), h, "", slotfile.Target{})
		var miss *Miss
		if !errors.As(err, &miss) || miss.Reason != kv.MissLifecycleBusy {
			t.Errorf("got %v", err)
		}
	})
	t.Run("spills wait for its end", func(t *testing.T) {
		done := make(chan error, 1)
		l.eng.hold(1, talk(2, 640))
		must(t, l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Slot: 1, Tokens: talk(2, 640), Done: func(_ Spilled, err error) { done <- err }}))
		select {
		case err := <-done:
			t.Errorf("it ended during the clear: %v", err)
		default:
		}
		close(v.sweeps)
		must(t, <-cleared)
		must(t, <-done)
	})
	l.exact()
}

// TestKV43QueueNeverWaits: a slow spill keeps nobody, and what does not fit the
// queue is dropped and counted.
func TestKV43QueueNeverWaits(t *testing.T) {
	l := newLab(t, setup{})
	hold, began := make(chan struct{}), make(chan struct{}, 9)
	l.eng.before = func() error { began <- struct{}{}; <-hold; return nil }
	var wg sync.WaitGroup
	queue := func(c int) error {
		l.eng.hold(c, talk(c, 640))
		wg.Add(1)
		err := l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Slot: c, Tokens: talk(c, 640), Done: func(Spilled, error) { wg.Done() }})
		if err != nil {
			wg.Done()
		}
		return err
	}
	must(t, queue(1))
	<-began // the worker has it
	must(t, queue(2))
	must(t, queue(3))
	if err := queue(4); !errors.Is(err, &Refusal{Reason: ReasonQueueFull}) {
		t.Errorf("got %v", err)
	}
	if q := l.Status().Activity.Queue; q.Items != 3 || q.Dropped != 1 {
		t.Errorf("%+v", q)
	}
	if h := l.lookup(talk(1, 700)); h.Found() {
		t.Error("it was found before it was written")
	}
	close(hold)
	wg.Wait()
	if q := l.Status().Activity.Queue; q.Items != 0 || q.Bytes != 0 {
		t.Errorf("%+v", q)
	}
	t.Run("by bytes", func(t *testing.T) {
		l := newLab(t, setup{memory: 10 * mib}) // 600 KiB may wait
		_, err := l.spill(0, talk(1, 640))
		must(t, err)
		hold, began := make(chan struct{}), make(chan struct{}, 9)
		l.eng.before = func() error { began <- struct{}{}; <-hold; return nil }
		l.eng.hold(1, talk(2, 2000))
		done := make(chan error, 1)
		must(t, l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Slot: 1, Tokens: talk(2, 2000), Done: func(_ Spilled, err error) { done <- err }}))
		<-began
		if err := l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Slot: 2, Tokens: talk(3, 640)}); !errors.Is(err, &Refusal{Reason: ReasonQueueFull}) {
			t.Errorf("got %v", err)
		}
		close(hold)
		must(t, <-done)
	})
	l.exact()
}

// TestKV52WorkerPanics: contained, visible, and nothing is written any more.
func TestKV52WorkerPanics(t *testing.T) {
	l := newLab(t, setup{})
	_, err := l.spill(0, talk(1, 640))
	must(t, err)
	l.eng.before = func() error { panic("planted") }
	if _, err := l.spill(1, talk(2, 640)); err == nil {
		t.Fatal("the panic went unseen")
	}
	if s := l.Status().Effective; s.State != kv.StateDegraded || s.Reason != ReasonWorker {
		t.Errorf("%+v", s)
	}
	l.eng.before = nil
	if _, err := l.spill(2, talk(3, 640)); !errors.Is(err, &Refusal{Reason: ReasonWorker}) {
		t.Errorf("got %v", err)
	}
	if _, err := l.restore(talk(1, 700)); err != nil {
		t.Errorf("reads go on: %v", err)
	}
	l.exact()
}

// TestClose finishes what is queued, within its deadline.
func TestClose(t *testing.T) {
	t.Run("KV31 the last spill is not lost", func(t *testing.T) {
		l := newLab(t, setup{})
		hold := make(chan struct{})
		l.eng.before = func() error { <-hold; return nil }
		for c := 1; c <= 3; c++ {
			l.eng.hold(c, talk(c, 640))
			if err := l.Spill(Request{Model: model(1), State: state(1), Slots: l.eng, Slot: c, Tokens: talk(c, 640)}); err != nil {
				c-- // the worker has not taken the first yet
			}
		}
		closed := make(chan error)
		go func() { closed <- l.Close(context.Background()) }()
		close(hold)
		must(t, <-closed)
		if err := l.Spill(Request{Model: model(1)}); !errors.Is(err, &Refusal{Reason: ReasonClosed}) {
			t.Errorf("after it: %v", err)
		}
		if _, err := l.Clear(context.Background(), nil, false); !errors.Is(err, ErrNotActive) {
			t.Errorf("a store that was given back was cleared: %v", err)
		}
		again := newLab(t, setup{dir: l.dir})
		for c := 1; c <= 3; c++ {
			_, err := again.restore(talk(c, 700))
			must(t, err)
		}
	})
	t.Run("a deadline cuts the spill under way", func(t *testing.T) {
		l := newLab(t, setup{})
		began := make(chan struct{})
		cut, done := context.WithCancel(context.Background())
		slow := slowSlots{l.eng, began}
		must(t, l.Spill(Request{Model: model(1), State: state(1), Slots: slow, Slot: 1, Tokens: talk(1, 640)}))
		<-began
		done()
		must(t, l.Close(cut))
		again := newLab(t, setup{dir: l.dir})
		if s := again.Status(); s.Usage.Manifests != 0 {
			t.Errorf("%+v", s.Usage)
		}
		again.exact()
	})
}

// slowSlots is an engine that saves until it is told to stop.
type slowSlots struct {
	*engine
	began chan struct{}
}

func (s slowSlots) Save(ctx context.Context, slot int) (string, int, int64, error) {
	close(s.began)
	<-ctx.Done()
	return "", 0, 0, ctx.Err()
}

// TestKV13PinnedMeanwhile: a state that was found after the plan was made, and
// before it is carried out, stays whole.
func TestKV13PinnedMeanwhile(t *testing.T) {
	l := newLab(t, setup{})
	for c := 1; c <= 2; c++ {
		_, err := l.spill(c, talk(c, 640))
		must(t, err)
	}
	g, err := l.goal(kv.Goal{All: true})
	must(t, err)
	plan := kv.PlanEvict(l.contents(), g)
	h := l.lookup(talk(1, 700))
	_, err = l.carryOut(context.Background(), plan)
	must(t, err)
	f, path, err := l.take(h)
	must(t, err)
	must(t, os.Remove(path))
	must(t, l.Settle(f, NotTried, 0, 0))
	if s := l.Status(); s.Usage.Manifests != 1 || s.Usage.UniqueSegments != 10 {
		t.Errorf("%+v", s.Usage)
	}
	l.exact()
}

// TestTransitionsAreBounded: 64 are kept, the oldest go.
func TestTransitionsAreBounded(t *testing.T) {
	l := newLab(t, setup{})
	for i := range 100 {
		l.condition(func(c *conditions) { c.low = i%2 == 0 })
		l.condition(func(c *conditions) { c.low = i%2 == 0 }) // no change, no event
	}
	all := l.Transitions(0)
	if len(all) != maxTransitions || all[len(all)-1].Seq != 101 || all[0].Seq != 38 {
		t.Errorf("%d kept, from %d to %d", len(all), all[0].Seq, all[len(all)-1].Seq)
	}
	if got := l.Transitions(99); len(got) != 2 || got[0].Seq != 100 {
		t.Errorf("%+v", got)
	}
}

// TestTraffic has everything happen at once: fills, spills, prunes, clears,
// limits and status. Nobody fails for a reason that is not on the list, and at
// the end all books balance.
func TestTraffic(t *testing.T) {
	l := newLab(t, setup{limits: Limits{Budget: 6 * mib, Reserve: 1, MinTokens: 64}})
	ctx := context.Background()
	var wg sync.WaitGroup
	var fills sync.Mutex // take counts in the lab
	for w := range 4 {
		wg.Go(func() {
			for i := range 32 / thin {
				c := (w*7 + i) % 9
				_, err := l.spill(c, talk(c, 300+64*(i%20)))
				var no *Refusal
				if err != nil && !errors.As(err, &no) {
					t.Errorf("spill: %v", err)
				}
				fills.Lock()
				if _, err = l.restore(talk(c, 2000)); err != nil {
					var miss *Miss
					if !errors.As(err, &miss) || miss.Reason == kv.MissCorrupt || miss.Reason == kv.MissStorageError {
						t.Errorf("restore: %v", err)
					}
				}
				fills.Unlock()
			}
		})
	}
	wg.Go(func() {
		for i := range 20 {
			target := kv.Bytes(i%4) * mib
			if _, err := l.Prune(ctx, PruneRequest{Target: &target}); err != nil {
				t.Errorf("prune: %v", err)
			}
			if i%7 == 6 {
				if _, err := l.Clear(ctx, nil, false); err != nil {
					t.Errorf("clear: %v", err)
				}
			}
			if _, err := l.Verify(ctx, nil); err != nil {
				t.Errorf("verify: %v", err)
			}
			if used := l.Status().Usage.UsedBytes; used > 6*mib {
				t.Errorf("K27 %d used", used)
			}
		}
	})
	wg.Wait()
	if s := l.Status(); s.Activity.CorruptEntries != 0 || s.Activity.RestoreFailures != 0 {
		t.Errorf("%+v", s.Activity)
	}
	l.exact()
}
