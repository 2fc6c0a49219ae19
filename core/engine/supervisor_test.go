package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// asEngine makes this test program play an engine: what it does is the value.
const asEngine = "HOLDFAST_TEST_AS_ENGINE"

func TestMain(m *testing.M) {
	switch os.Getenv(asEngine) {
	case "":
		os.Exit(m.Run())
	case "serve":
		serveForever()
	case "fail":
		fmt.Println("no such model")
		os.Exit(3)
	}
}

// serveForever answers health checks with the right key until it is ended.
func serveForever() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("srv  llama_server: listening on http://%s\n", l.Addr())
	http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/die" {
			os.Exit(1)
		}
		if r.Header.Get("Authorization") != "Bearer "+os.Getenv("LLAMA_API_KEY") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"status":"ok"}`)
	}))
}

// supervised runs this program as an engine; every pause is noted and over at
// once.
func supervised(t *testing.T, does string) (v *Supervisor, pauses func() []time.Duration, ends chan End) {
	t.Helper()
	t.Setenv(asEngine, does)
	noted := make(chan time.Duration, 100)
	ends = make(chan End, 100)
	v = Start(Settings{Command: os.Args[0]}, t.TempDir(), slog.New(slog.DiscardHandler), Hooks{
		Pause: func(_ context.Context, d time.Duration) error {
			noted <- d
			return nil
		},
		Ended: func(e End) { ends <- e },
	})
	t.Cleanup(v.Close)
	return v, func() (all []time.Duration) {
		for len(noted) > 0 {
			all = append(all, <-noted)
		}
		return all
	}, ends
}

// An engine that dies is started again, with a new key and a new life, and
// what was known of its slots is over.
func TestK29_K41_SupervisorRestarts(t *testing.T) {
	v, pauses, ends := supervised(t, "serve")
	first, err := v.Running(t.Context())
	if err != nil || first.Life != 1 {
		t.Fatalf("%+v %v", first, err)
	}
	if err := NewClient(first.Client.Base(), "guess").Healthy(t.Context()); err == nil {
		t.Error("a stranger's key is taken")
	}
	err = first.Client.call(t.Context(), "die", http.MethodGet, "/die", nil, nil)
	if !Gone(err) {
		t.Errorf("an engine that died: %v", err)
	}
	if err := v.Ended(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if now, err := v.Running(t.Context()); err != nil || now.Life != 2 || now.Client.Healthy(t.Context()) != nil {
		t.Errorf("after the end is known: %+v %v", now, err)
	}
	still, cancel := context.WithCancel(t.Context())
	cancel()
	if err := v.Ended(still, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("a life that goes on has ended: %v", err)
	}
	if got := pauses(); !slices.Equal(got, []time.Duration{time.Second}) {
		t.Errorf("paused %v", got)
	}
	if e := <-ends; e.Err == nil || e.Last || len(ends) > 0 {
		t.Errorf("told of %+v and %d more", e, len(ends))
	}
}

// TestSupervisorGivesUp wants 1, 2, 4 and 4 seconds between starts, and after
// the fifth end a reason instead of another start.
func TestSupervisorGivesUp(t *testing.T) {
	v, pauses, ends := supervised(t, "fail")
	_, err := v.Running(t.Context())
	for err == nil {
		_, err = v.Running(t.Context())
	}
	var e *Error
	if !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), "no such model") {
		t.Errorf("%v", err)
	}
	if got, want := pauses(), []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second}; !slices.Equal(got, want) {
		t.Errorf("paused %v, want %v", got, want)
	}
	for i := 1; i <= maxEnds; i++ {
		if e := <-ends; e.Last != (i == maxEnds) {
			t.Errorf("end %d is told as %+v", i, e)
		}
	}
}

func TestSupervisorWithoutProgram(t *testing.T) {
	v := Start(Settings{Command: t.TempDir() + "/absent"}, t.TempDir(), slog.New(slog.DiscardHandler),
		Hooks{Pause: func(context.Context, time.Duration) error { return nil }})
	defer v.Close()
	if _, err := v.Running(t.Context()); err == nil || Refused(err) {
		t.Errorf("%v", err)
	}
}

// TestSupervisorCloses wants a waiting caller told, and the child gone.
func TestSupervisorCloses(t *testing.T) {
	v, _, _ := supervised(t, "serve")
	now, err := v.Running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v.Close()
	if _, err := v.Running(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("%v", err)
	}
	if now.Client.Healthy(t.Context()) == nil {
		t.Error("the engine still answers")
	}
}

// The flags that keep slots alive are part of every command line; the engine has
// no RAM cache behind our back.
func TestK28_Args(t *testing.T) {
	s := Settings{Model: "m.gguf", Slots: 3, Context: 1000, NoFlash: true, Threads: 2}
	s.RoPE.FreqBase = "500000"
	got := strings.Join(s.Normal().Args("/dir"), " ")
	for _, want := range []string{"-np 3", "-no-kvu", "--cache-ram 0", "--cache-reuse 0", "-c 3000", "-fa off", "-ctk f16", "-ub 512",
		"--port 0", "--host 127.0.0.1", "--slot-save-path /dir", "--rope-freq-base 500000", "-t 2"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "swa-full") {
		t.Error("--swa-full answers wrongly after a rewind")
	}
}
