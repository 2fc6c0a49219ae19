package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast/core/demo"
	"holdfast/core/guard"
	"holdfast/core/wire"
)

// demoPace is the pause between turns without --fast: quick, but slow enough
// to watch in the inspector.
const demoPace = 40 * time.Millisecond

func (c *cli) demoCommand() *cobra.Command {
	var o demoOptions
	var real engineDemo
	var withEngine bool
	cmd := &cobra.Command{
		Use: "demo", Short: "Play a bundled coding session through the real chain", Args: cobra.NoArgs,
		Long: "Plays a coding session against a scripted model in this process, once directly and once\n" +
			"through the chain, on two wires, on private ports and in a home of its own. The model folds\n" +
			"its history as real ones do. Prints before and after, and what was checked; exits with 1\n" +
			"if a check fails. Needs no key and no network.",
	}
	cmd.Flags().IntVar(&o.turns, "turns", demo.DefaultTurns, "number of model calls")
	cmd.Flags().BoolVar(&o.fast, "fast", false, "no pauses, and exit when it has ended")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "keep the home and print where it is")
	cmd.Flags().BoolVar(&withEngine, "engine", false, "show a restart on a real local engine instead")
	cmd.Flags().StringVar(&real.command, "engine-command", "llama-server", "the engine's program, for --engine")
	cmd.Flags().StringVar(&real.model, "engine-model", "", "a GGUF file, for --engine")
	cmd.Flags().IntVar(&real.tokens, "engine-tokens", 4000, "length of the conversation, for --engine")
	cmd.RunE = c.do(func(ctx context.Context, _ []string) error {
		if withEngine {
			real.keep = o.keep
			return c.demoEngine(ctx, real)
		}
		if o.turns < 1 || o.turns > demo.DefaultTurns {
			return &Fault{Code: exitUsage, What: fmt.Sprintf("the session has 1 to %d turns", demo.DefaultTurns), Hint: "leave --turns out to play them all"}
		}
		return c.demo(ctx, o)
	})
	return c.withJSON(cmd)
}

type demoOptions struct {
	turns      int
	fast, keep bool
}

// scene is one playing of the session: a wire and what a person calls it.
type scene struct {
	family      wire.Family
	name, model string
	// strict says that the route takes no two neighbours of one role, as the
	// chat templates of local servers do.
	strict bool
}

func scenes() []scene {
	return []scene{
		{wire.Anthropic, "Anthropic Messages", "claude-sonnet-4-5", false},
		{wire.OpenAI, "Chat Completions", "gpt-5.2", true},
	}
}

func (s scene) direct() string  { return "direct-" + string(s.family) }
func (s scene) through() string { return "through-" + string(s.family) }

// stage is what a demo runs on: the scripted model and the app between it and
// the agent.
type stage struct {
	player *demo.Model
	url    string
	app    *App
	view   views
	home   string
}

func (c *cli) demo(ctx context.Context, o demoOptions) (err error) {
	home, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.leave(home, o.keep)) }()
	model, url, stop, err := serveModel(o.turns)
	if err != nil {
		return err
	}
	defer stop()
	a, err := openDemo(ctx, home, url)
	if err != nil {
		return err
	}
	serving, end := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- a.Run(serving) }()
	st := &stage{model, url, a, a.engine.views(), home}
	err = c.show(ctx, st, o)
	if ctx.Err() != nil {
		err = &Fault{Code: exitFailed, What: "the demo was stopped before its end", Hint: "nothing is left of it"}
	}
	if !o.fast && ctx.Err() == nil {
		c.invite(st)
		<-ctx.Done()
	}
	end()
	return errors.Join(err, <-ran, a.Close())
}

// leave removes the home, or says where it is.
func (c *cli) leave(home string, keep bool) error {
	if !keep {
		return os.RemoveAll(home)
	}
	_, err := fmt.Fprintf(c.notes(), "\nThe home is kept: HOLDFAST_HOME=%s\n", home)
	return err
}

// modelKeeps is how many exchanges keep their bodies: more than one turn has.
const modelKeeps = 24

// serveModel starts the scripted model on a port of its own.
func serveModel(turns int) (m *demo.Model, url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", nil, err
	}
	m = demo.NewModel(demo.Options{Script: demo.ScriptOf(demo.Session(turns)), Strict: true, Keep: modelKeeps})
	srv := guard.Server(m)
	go srv.Serve(l) // ends with Close below
	return m, "http://" + l.Addr().String(), func() { srv.Close() }, nil
}

// openDemo opens an App that knows the model alone, folds, serves from
// snapshots and compares every turn with the full path.
func openDemo(ctx context.Context, home, model string) (*App, error) {
	text := "[rollout]\nmode = \"on\"\ntripwire_percent = 100\n[fold]\nenabled = true\n"
	for _, s := range scenes() {
		text += fmt.Sprintf("[routes.%s]\nurl = %q\ndefault_for = [%q]\nstrict_roles = %t\n", s.through(), demo.BaseURL(model, s.through()), s.family, s.strict)
	}
	p := Paths{home, home, home}
	if err := writeFile(p.configFile(), []byte(text)); err != nil {
		return nil, err
	}
	return Open(ctx, AppOptions{Paths: p, Env: func(string) string { return "" },
		Flags: map[string]string{"addr": "127.0.0.1:0", "inspector_addr": "127.0.0.1:0"}})
}

// playing is one playing of the session as its client saw it.
type playing struct {
	summary demo.Summary
	first   []time.Duration // time to the first byte of each turn
	said    []string        // what the model replied, without ids
}

// playOnce plays the session; each is told every turn and may stop it.
func playOnce(ctx context.Context, url string, opts demo.PlayOptions, each func(demo.TurnResult)) (p playing, err error) {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	p.summary, err = demo.Play(ctx, url, client, opts, func(t demo.TurnResult) {
		p.first, p.said = append(p.first, t.FirstByte), append(p.said, t.Said)
		each(t)
	})
	return p, err
}

// show plays all scenes and prints what came of it.
func (c *cli) show(ctx context.Context, st *stage, o demoOptions) error {
	p := c.progress()
	p.line("%d turns of a coding session on two wires, each straight to a scripted model and through Holdfast.", o.turns)
	p.line("It all happens in this process: no key, no network, and none of your files is touched.\n")
	report := demoReport{Version: version(), Turns: o.turns, Scenes: []sceneReport{}}
	for _, s := range scenes() {
		r, err := st.play(ctx, s, o, p)
		if err != nil {
			p.clear()
			return err
		}
		report.Scenes = append(report.Scenes, *r)
	}
	if err := c.printDemo(&report); err != nil {
		return err
	}
	if bad := report.failed(); len(bad) > 0 {
		return &Fault{Code: exitFailed, What: fmt.Sprintf("%d checks failed, the first: %s", len(bad), bad[0].said()),
			Hint: "play it again with --keep and look at the session with holdfast sessions verify"}
	}
	return nil
}

// play plays one scene both ways.
func (st *stage) play(ctx context.Context, s scene, o demoOptions, p *progress) (*sceneReport, error) {
	opts := demo.PlayOptions{Turns: o.turns, Wire: s.family}
	count := func(how string) func(demo.TurnResult) {
		return func(t demo.TurnResult) { p.step("%s, %s: turn %d of %d", s.name, how, t.Turn, o.turns) }
	}
	direct, err := playOnce(ctx, demo.BaseURL(st.url, s.direct()), opts, count("directly"))
	if err != nil {
		return nil, fmt.Errorf("playing directly: %w", err)
	}
	if !o.fast {
		opts.Pace = demoPace
	}
	w := &follower{scene: s, stage: st, ctx: ctx}
	told := count("through Holdfast")
	through, err := playOnce(ctx, st.app.BaseURL(), opts, func(t demo.TurnResult) { told(t); w.turn(t) })
	if err != nil {
		return nil, fmt.Errorf("playing through the chain: %w", err)
	}
	p.step("%s: checking the ledger", s.name)
	st.app.engine.chain.Idle() // bookkeeping behind the last reply
	r, err := w.report(direct, through)
	if err != nil {
		return nil, err
	}
	p.done("%-20s directly %s, through Holdfast %s", s.name, seconds(direct.summary.Took), seconds(through.summary.Took))
	return r, nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
