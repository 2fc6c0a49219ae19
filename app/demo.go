package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"holdfast/core/demo"
	"holdfast/core/guard"
	"holdfast/core/session"
	"holdfast/web/api"
)

// demoPace is the pause between turns without --fast: quick, but slow enough
// to watch in the inspector.
const demoPace = 40 * time.Millisecond

func (c *cli) demoCommand() *cobra.Command {
	var turns int
	var fast, keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Play a bundled coding session through the real chain", Args: cobra.NoArgs,
		Long: "Plays a coding session against a scripted model in this process, once directly and once\n" +
			"through the chain, on private ports and in a home of its own. Needs no key and no network.",
	}
	cmd.Flags().IntVar(&turns, "turns", demo.DefaultTurns, "number of model calls")
	cmd.Flags().BoolVar(&fast, "fast", false, "no pauses, and exit when it has ended")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the home and print where it is")
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		if turns < 1 || turns > demo.DefaultTurns {
			return &Fault{Code: exitUsage, What: fmt.Sprintf("the session has 1 to %d turns", demo.DefaultTurns), Hint: "leave --turns out to play them all"}
		}
		return c.demo(ctx, turns, fast, keep)
	})
	return cmd
}

func (c *cli) demo(ctx context.Context, turns int, fast, keep bool) (err error) {
	home, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return err
	}
	if keep {
		defer fmt.Fprintf(c.out, "\nThe home is kept: HOLDFAST_HOME=%s\n", home)
	} else {
		defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	}
	model, stop, err := serveModel(turns)
	if err != nil {
		return err
	}
	defer stop()
	a, err := openDemo(ctx, home, model)
	if err != nil {
		return err
	}
	serving, end := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- a.Run(serving) }()
	err = c.play(ctx, a, model, turns, fast)
	if err == nil && !fast {
		fmt.Fprintf(c.out, "\nThe inspector stays open until Ctrl-C:\n  curl -H \"Authorization: Bearer $(cat %s)\" http://%s/hf/v1/sessions\n", a.paths.tokenFile(), a.Inspector)
		<-ctx.Done()
	}
	end()
	return errors.Join(err, <-ran, a.Close())
}

// serveModel starts the scripted model on a port of its own.
func serveModel(turns int) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := guard.Server(demo.NewModel(demo.Options{Script: demo.ScriptOf(demo.Session(turns))}))
	go srv.Serve(l) // ends with Close below
	return "http://" + l.Addr().String(), func() { srv.Close() }, nil
}

// openDemo opens an App that knows the model alone, serves from snapshots and
// compares every turn with the full path.
func openDemo(ctx context.Context, home, model string) (*App, error) {
	text := fmt.Sprintf("[rollout]\nmode = \"on\"\ntripwire_percent = 100\n[routes.demo]\nurl = %q\ndefault_for = [\"anthropic\", \"openai\"]\n", model)
	p := Paths{home, home, home}
	if err := writeFile(p.configFile(), []byte(text)); err != nil {
		return nil, err
	}
	return Open(ctx, AppOptions{Paths: p, Env: func(string) string { return "" },
		Flags: map[string]string{"addr": "127.0.0.1:0", "inspector_addr": "127.0.0.1:0"}})
}

// run is one playing of the session.
type playing struct {
	summary demo.Summary
	first   []time.Duration // time to first byte of each turn
}

func playOnce(ctx context.Context, url string, opts demo.PlayOptions) (p playing, err error) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	p.summary, err = demo.Play(ctx, url, client, opts, func(t demo.TurnResult) { p.first = append(p.first, t.FirstByte) })
	return p, err
}

func (c *cli) play(ctx context.Context, a *App, model string, turns int, fast bool) error {
	opts := demo.PlayOptions{Turns: turns}
	fmt.Fprintf(c.out, "Playing %d turns of a coding session, first directly, then through the chain.\n\n", turns)
	direct, err := playOnce(ctx, model, opts)
	if err != nil {
		return fmt.Errorf("playing directly: %w", err)
	}
	if !fast {
		opts.Pace = demoPace
	}
	through, err := playOnce(ctx, a.BaseURL(), opts)
	if err != nil {
		return fmt.Errorf("playing through the chain: %w", err)
	}
	a.engine.chain.Idle() // bookkeeping behind the last reply
	f, err := a.figures(ctx)
	if err != nil {
		return err
	}
	f.direct, f.through = direct, through
	return table(c.out, f.rows())
}

// figures are what the demo shows, read from the ledger it made.
type figures struct {
	direct, through playing
	session         session.SessionView
	turns           []session.TurnView
	status          api.Status
}

func (a *App) figures(ctx context.Context) (f figures, err error) {
	db := a.engine.views()
	list, _, err := db.Sessions(ctx, "", 1, 1)
	if err != nil {
		return f, err
	}
	if len(list) == 0 {
		return f, errors.New("the demo left no session in the ledger")
	}
	f.session = list[0]
	if f.turns, _, err = db.Turns(ctx, f.session.ID, 1, demo.DefaultTurns+1); err != nil {
		return f, err
	}
	f.status, err = a.engine.status(ctx)
	return f, err
}

// rows are the before and after of the demo.
func (f *figures) rows() [][]string {
	in, out, same := f.bytes()
	ev := f.status.Rollout.Evidence
	p50, p99 := f.added()
	own50, own99 := f.own()
	return [][]string{
		{"", "DIRECT", "THROUGH HOLDFAST"},
		{"turns", count(int64(f.direct.summary.Turns)), fmt.Sprintf("%s (%s)", count(int64(f.through.summary.Turns)), f.paths())},
		{"elements", count(int64(f.direct.summary.Elements)), fmt.Sprintf("%s, each stored once: %s", count(int64(f.through.summary.Elements)), count(f.session.Elements))},
		{"bytes in", bytesText(f.direct.summary.Sent), bytesText(in)},
		{"bytes out", bytesText(f.direct.summary.Sent), bytesText(out)},
		{"stable prefix", "", percentText(same, out) + " of the bytes sent were last turn's, at the same place"},
		{"paths compared", "", comparedText(ev)},
		{"gates", "", countsText(f.status.Chain.Gates)},
		{"ledger", "", bytesText(f.status.Ledger.Bytes) + " on disk, " + percentText(f.status.Ledger.Bytes, in) + " of what came in"},
		{"added to first byte", "", fmt.Sprintf("%s p50, %s p99", p50, p99)},
		{"of that, the chain's own", "", fmt.Sprintf("%s p50, %s p99", own50, own99)},
		{"took", f.direct.summary.Took.Round(time.Millisecond).String(), f.through.summary.Took.Round(time.Millisecond).String()},
	}
}

func (f *figures) bytes() (in, out, same int64) {
	for _, t := range f.turns {
		in, out, same = in+t.Bytes.In, out+t.Bytes.Out, same+t.Bytes.PrefixSame
	}
	return in, out, same
}

// paths counts the turns by what served them.
func (f *figures) paths() string {
	n := map[string]int64{}
	for _, t := range f.turns {
		n[string(t.Path)]++
	}
	return countsText(n)
}

// added is what a turn waited longer for its first byte than directly.
func (f *figures) added() (p50, p99 string) {
	var d []time.Duration
	for i := range min(len(f.direct.first), len(f.through.first)) {
		d = append(d, f.through.first[i]-f.direct.first[i])
	}
	return quantiles(d)
}

// own is the time of the stages before the upstream is called.
func (f *figures) own() (p50, p99 string) {
	var d []time.Duration
	for _, t := range f.turns {
		ms := t.Ms.Identify + t.Ms.Decode + t.Ms.Rewrite + t.Ms.Apply + t.Ms.Encode
		d = append(d, time.Duration(ms*float64(time.Millisecond)))
	}
	return quantiles(d)
}

func quantiles(d []time.Duration) (p50, p99 string) {
	if len(d) == 0 {
		return "–", "–"
	}
	slices.Sort(d)
	at := func(q int) string {
		return fmt.Sprintf("%.2f ms", float64(d[min(len(d)-1, len(d)*q/100)].Microseconds())/1000)
	}
	return at(50), at(99)
}
