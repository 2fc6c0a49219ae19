package engine

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"sync"
	"time"
)

// A managed engine that ends by itself is started again after 1, 2 and then 4
// seconds; five ends within ten minutes are no accident any more.
const (
	maxEnds    = 5
	endsWithin = 10 * time.Minute
)

func backOff(ends int) time.Duration { return time.Second << min(max(ends-1, 0), 2) }

// startTime is what loading a large model from a slow disk may take.
const startTime = 10 * time.Minute

// stopTime is what an engine may take to end by itself once asked.
const stopTime = 10 * time.Second

// Supervisor runs one engine and keeps it running. Start makes it; Close ends
// the engine and waits for it.
type Supervisor struct {
	settings Settings
	handover string
	log      *slog.Logger
	hooks    Hooks

	mu     sync.Mutex
	now    Running       // zero while there is none
	turn   chan struct{} // closed when now or failed changes
	failed error         // why it is not started any more
	stop   context.CancelFunc
	done   chan struct{}
}

// Hooks are how a supervisor waits and whom it tells; both may be nil.
type Hooks struct {
	// Pause waits between starts; nil for real time.
	Pause func(context.Context, time.Duration) error
	// Ended hears of each life that ended unasked. It must not block.
	Ended func(End)
}

// End is a life that ended unasked. Last is set when it is not started again.
type End struct {
	Err  error
	Last bool
}

// Running is one life of an engine.
type Running struct {
	Client *Client
	// Life counts starts; a slot's content is gone when it changes.
	Life int
	PID  int
}

// ErrStopped answers who waits for an engine that was closed.
var ErrStopped = errors.New("engine: stopped")

// Start begins to run an engine. handover is the folder for its slot files; it
// must exist.
func Start(s Settings, handover string, log *slog.Logger, hooks Hooks) *Supervisor {
	if hooks.Pause == nil {
		hooks.Pause = wait
	}
	if hooks.Ended == nil {
		hooks.Ended = func(End) {}
	}
	ctx, stop := context.WithCancel(context.Background())
	v := &Supervisor{settings: s.Normal(), handover: handover, log: log, hooks: hooks, turn: make(chan struct{}), stop: stop, done: make(chan struct{})}
	go v.keep(ctx)
	return v
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Running waits for an engine that answers.
func (v *Supervisor) Running(ctx context.Context) (Running, error) {
	for {
		v.mu.Lock()
		now, failed, turn := v.now, v.failed, v.turn
		v.mu.Unlock()
		switch {
		case failed != nil:
			return Running{}, failed
		case now.Client != nil:
			return now, nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return Running{}, ctx.Err()
		}
	}
}

// State tells without waiting: running, starting or why it is not started again.
func (v *Supervisor) State() (now Running, failed error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.now, v.failed
}

// Ended waits until a life is known to have ended: its connections break a moment
// before the system tells.
func (v *Supervisor) Ended(ctx context.Context, life int) error {
	for {
		v.mu.Lock()
		now, turn := v.now, v.turn
		v.mu.Unlock()
		if now.Life != life {
			return nil
		}
		select {
		case <-turn:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close ends the engine. Save what its slots hold before.
func (v *Supervisor) Close() {
	v.stop()
	<-v.done
}

func (v *Supervisor) set(now Running, failed error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.now, v.failed = now, failed
	close(v.turn)
	v.turn = make(chan struct{})
}

// keep starts the engine again and again until it is stopped or ends too often.
// It holds one system thread: the engine dies with the thread that started it.
func (v *Supervisor) keep(ctx context.Context) {
	defer close(v.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ends []time.Time
	for life := 1; ; life++ {
		err := v.live(ctx, life)
		if ctx.Err() != nil {
			v.set(Running{}, ErrStopped)
			return
		}
		ends = recent(append(ends, time.Now()))
		v.hooks.Ended(End{err, len(ends) >= maxEnds})
		if len(ends) >= maxEnds {
			v.log.Error("the engine ended too often and is not started again", "ends", len(ends), "err", err)
			v.set(Running{}, &Error{Op: "start", What: fmt.Sprintf("it ended %d times within %v", len(ends), endsWithin), Err: err,
				Hint: "Run the engine by hand to see why: " + v.settings.Command + " -m MODEL"})
			return
		}
		v.set(Running{}, nil)
		v.log.Warn("the engine ended and is started again", "ends", len(ends), "err", err)
		if v.hooks.Pause(ctx, backOff(len(ends))) != nil {
			v.set(Running{}, ErrStopped)
			return
		}
	}
}

func recent(ends []time.Time) []time.Time {
	for len(ends) > 0 && time.Since(ends[0]) > endsWithin {
		ends = ends[1:]
	}
	return ends
}

// live is one life: start, wait until it answers, wait until it ends.
func (v *Supervisor) live(ctx context.Context, life int) error {
	key := rand.Text()
	cmd := exec.Command(v.settings.Command, v.settings.Args(v.handover)...)
	cmd.Env = append(os.Environ(), "LLAMA_API_KEY="+key, "GGML_NO_BACKTRACE=1")
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	release, err := startLeashed(cmd)
	w.Close()
	if err != nil {
		return &Error{Op: "start", Err: err, Hint: "Set engine command to the path of llama-server."}
	}
	defer release()
	out := newOutput()
	go out.read(r)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	client, err := v.answering(ctx, out, key, ended)
	if err != nil {
		cmd.Process.Kill() // it may have ended already
		return err
	}
	v.log.Info("the engine runs", "life", life, "pid", cmd.Process.Pid, "at", client.Base())
	v.set(Running{Client: client, Life: life, PID: cmd.Process.Pid}, nil)
	defer client.Close()
	select {
	case err := <-ended:
		return fmt.Errorf("it ended: %w: %s", errors.Join(err, errEnded), out.last())
	case <-ctx.Done():
		return end(cmd.Process, ended)
	}
}

var errEnded = errors.New("not asked to")

// end asks the engine to end, and makes it end where it does not.
func end(p *os.Process, ended chan error) error {
	if err := p.Signal(os.Interrupt); err != nil {
		p.Kill()
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(stopTime):
		p.Kill()
		return <-ended
	}
}

// answering waits for the address in the engine's output and for its health.
func (v *Supervisor) answering(ctx context.Context, out *output, key string, ended chan error) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	select {
	case at := <-out.address:
		client := NewClient(at, key)
		for client.Healthy(ctx) != nil {
			select {
			case err := <-ended:
				return nil, fmt.Errorf("it ended while loading: %w: %s", errors.Join(err, errEnded), out.last())
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
		return client, nil
	case err := <-ended:
		return nil, fmt.Errorf("it ended at once: %w: %s", errors.Join(err, errEnded), out.last())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listening is what the engine says once its port is open.
var listening = regexp.MustCompile(`listening on (http://[0-9.:]+)`)

// output reads what an engine prints: its address, and the last line for the
// reason it ended. Prompts are not in it at the default verbosity.
type output struct {
	address chan string
	mu      sync.Mutex
	line    string
	whole   chan struct{}
}

func newOutput() *output { return &output{address: make(chan string, 1), whole: make(chan struct{})} }

func (o *output) read(r io.Reader) {
	defer close(o.whole)
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if m := listening.FindStringSubmatch(line); m != nil {
			select {
			case o.address <- m[1]:
			default:
			}
		}
		if len(line) > 1 {
			o.mu.Lock()
			o.line = line[:min(len(line)-1, 300)]
			o.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// last is the last line, once all of them are read.
func (o *output) last() string {
	<-o.whole
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.line
}
