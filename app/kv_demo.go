package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"holdfast/core/kv"
	"holdfast/core/usage"
)

// engineDemo is the demo on a real engine: how it is started and how long the
// conversation gets, in tokens.
type engineDemo struct {
	command, model string
	tokens         int
	keep           bool
}

// demoContext leaves room behind the longest conversation of a demo, in tokens.
const demoContext = 8192

// demoEngine talks to an engine through a Holdfast of its own until the
// conversation has so many tokens, kills both, starts both, and goes on.
func (c *cli) demoEngine(ctx context.Context, o engineDemo) (err error) {
	if o.model == "" {
		return &Fault{Code: exitUsage, What: "the demo needs a model", Hint: "go run ./build demo --engine makes one and installs an engine, or give --engine-model FILE.gguf"}
	}
	home, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return err
	}
	if o.keep {
		defer fmt.Fprintf(c.out, "\nThe home is kept: HOLDFAST_HOME=%s\n", home)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	}
	if err := writeFile(Paths{home, home, home}.configFile(), []byte(engineDemoConfig(o))); err != nil {
		return err
	}
	d := &engineShow{c: c, home: home, o: o, talk: []turnText{{"system", "You keep the log of a harbour."}}}
	return d.play(ctx)
}

func engineDemoConfig(o engineDemo) string {
	return fmt.Sprintf(`[routes.local]
url = "http://127.0.0.1:1"
engine = "llamacpp"
default_for = ["anthropic", "openai"]
[engine.local]
model = %q
command = %q
slots = 1
context = %d
[kv.disk]
mode = "fixed"
budget = "4GiB"
reserve = "1GiB"
`, o.model, o.command, demoContext)
}

// engineShow is one playing of it.
type engineShow struct {
	c    *cli
	home string
	o    engineDemo
	talk []turnText

	run  *exec.Cmd
	at   Runtime
	cold reading // the first long prompt, computed from nothing
	warm reading // the first one after the restart
}

type turnText struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// reading is one request as its client saw it.
type reading struct {
	first  time.Duration // to the first text
	text   string
	prompt usage.Tokens
	cached usage.Tokens
}

func (d *engineShow) play(ctx context.Context) error {
	say := func(format string, args ...any) { fmt.Fprintf(d.c.out, format+"\n", args...) }
	if err := d.start(ctx); err != nil {
		return err
	}
	defer func() { d.kill() }()
	say("A conversation of %d tokens with %s. The first prompt is computed from nothing; on a CPU that takes a while.", d.o.tokens, filepath.Base(d.o.model))
	if err := d.grow(ctx, say); err != nil {
		return err
	}
	stored, err := d.stored(ctx)
	if err != nil {
		return err
	}
	say("On disk: %d tokens. Holdfast and the engine are killed now, and started again.", stored.tokens)
	d.kill()
	if err := d.start(ctx); err != nil {
		return err
	}
	if d.warm, err = d.ask(ctx, "And in the morning?"); err != nil {
		return err
	}
	return d.report(stored)
}

// grow takes the conversation to its length: most of it at once, the rest in
// small turns.
func (d *engineShow) grow(ctx context.Context, say func(string, ...any)) error {
	if _, err := d.ask(ctx, "Good morning."); err != nil { // the engine has started and been tried out when this is answered
		return err
	}
	d.talk = d.talk[:1]
	r, err := d.ask(ctx, demoProse(d.o.tokens*8/10/2))
	if err != nil {
		return err
	}
	d.cold = r
	for r.prompt < usage.Tokens(d.o.tokens) {
		say("  %5d tokens, %5d of them reused, first text after %.2f s", r.prompt, r.cached, r.first.Seconds())
		if r, err = d.ask(ctx, demoProse(100)); err != nil {
			return err
		}
	}
	say("  %5d tokens, %5d of them reused, first text after %.2f s", r.prompt, r.cached, r.first.Seconds())
	return nil
}

// demoProse is n plain words; what they say does not matter, only that they are
// not the same twice.
func demoProse(n int) string {
	words := strings.Fields("the harbour clock tower river boat stone winter letter copper wheel wind water morning street church bread apple bridge house door hill train picture market light rain table window")
	r := rand.New(rand.NewPCG(uint64(n), 20260909)) // the same conversation everywhere
	var b strings.Builder
	for range n {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()
}

// start runs the program on the home and waits until it listens.
func (d *engineShow) start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p := Paths{d.home, d.home, d.home}
	os.Remove(p.runtimeFile()) // left by the run that was killed
	d.run = exec.CommandContext(ctx, program, "serve", "--addr", "127.0.0.1:0", "--inspector-addr", "127.0.0.1:0")
	d.run.Env = append(os.Environ(), "HOLDFAST_HOME="+d.home)
	if err := d.run.Start(); err != nil {
		return err
	}
	for {
		if r, ok := readRuntime(p); ok && r.PID == d.run.Process.Pid {
			d.at = r
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// kill ends the program without a word; its engine goes with it.
func (d *engineShow) kill() {
	if d.run != nil {
		d.run.Process.Kill()
		d.run.Wait() // killed: the error says so
		d.run = nil
	}
}

// ask adds a question, streams the reply and adds it as well.
func (d *engineShow) ask(ctx context.Context, text string) (r reading, err error) {
	d.talk = append(d.talk, turnText{"user", text})
	body, err := json.Marshal(map[string]any{"messages": d.talk, "stream": true, "max_tokens": 12, "temperature": 0,
		"stream_options": map[string]bool{"include_usage": true}})
	if err != nil {
		return r, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.at.Addr+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(resp.Body)
		return r, fmt.Errorf("the engine answered %s: %s", resp.Status, data)
	}
	err = r.read(resp.Body, began)
	d.talk = append(d.talk, turnText{"assistant", r.text})
	return r, err
}

// read takes a chat stream in.
func (r *reading) read(body io.Reader, began time.Time) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev struct {
			Choices []struct {
				Delta struct{ Content string }
			}
			Usage *struct {
				Prompt  usage.Tokens `json:"prompt_tokens"`
				Details struct {
					Cached usage.Tokens `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || json.Unmarshal([]byte(data), &ev) != nil {
			continue
		}
		for _, c := range ev.Choices {
			if r.text += c.Delta.Content; r.text != "" && r.first == 0 {
				r.first = time.Since(began)
			}
		}
		if ev.Usage != nil {
			r.prompt, r.cached = ev.Usage.Prompt, ev.Usage.Details.Cached
		}
	}
	return lines.Err()
}

// onDisk is what the store says once it has written what it will.
type onDisk struct {
	tokens         kv.Tokens
	bytes, written kv.Bytes
}

// stored waits until all whole blocks of the conversation are on disk: a few
// seconds after the last reply.
func (d *engineShow) stored(ctx context.Context) (s onDisk, err error) {
	for {
		st, err := d.status(ctx)
		if err != nil {
			return s, err
		}
		s = onDisk{written: st.Activity.Written, bytes: st.Usage.Used}
		for _, e := range st.Inventory {
			s.tokens = max(s.tokens, e.Tokens)
		}
		if st.Activity.Queue.Items == 0 && s.tokens >= kv.Tokens(d.o.tokens)-kv.BlockTokens {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// storeStatus is what of the tier's status counts here.
type storeStatus struct {
	Activity struct {
		Written kv.Bytes       `json:"bytes_written"`
		Queue   kv.StatusQueue `json:"queue"`
	} `json:"activity"`
	Usage struct {
		Used kv.Bytes `json:"used_bytes"`
	} `json:"usage"`
	Inventory []struct {
		Tokens kv.Tokens `json:"tokens"`
	} `json:"inventory"`
}

func (d *engineShow) status(ctx context.Context) (st storeStatus, err error) {
	token, err := os.ReadFile(Paths{d.home, d.home, d.home}.tokenFile())
	if err != nil {
		return st, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.at.Inspector+"/hf/v1/kv", nil)
	if err != nil {
		return st, err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return st, err
	}
	defer resp.Body.Close()
	return st, json.NewDecoder(resp.Body).Decode(&st)
}

func (d *engineShow) report(s onDisk) error {
	return table(d.c.out, [][]string{
		{"", "COLD", "RESTORED"},
		{"prompt", count(int64(d.cold.prompt)) + " tokens", count(int64(d.warm.prompt)) + " tokens"},
		{"not computed again", count(int64(d.cold.cached)), count(int64(d.warm.cached))},
		{"first text after", fmt.Sprintf("%.2f s", d.cold.first.Seconds()), fmt.Sprintf("%.2f s, the model's start included", d.warm.first.Seconds())},
		{"faster", "", fmt.Sprintf("%.1f times", d.cold.first.Seconds()/d.warm.first.Seconds())},
		{"bytes written", "", bytesText(int64(s.written))},
		{"of that kept", "", fmt.Sprintf("%s, amplification %.3f", bytesText(int64(s.bytes)), float64(s.written)/float64(s.bytes))},
	})
}
