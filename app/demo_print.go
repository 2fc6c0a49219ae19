package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"

	"holdfast/core/session"
	"holdfast/core/usage"
)

// paint puts colour where a person looks at a terminal, and nowhere else.
type paint struct{ on bool }

// The few styles of the demo's output.
const (
	styleBold  = "1"
	styleDim   = "2"
	styleRed   = "31"
	styleGreen = "32"
	styleTeal  = "36"
)

func (p paint) in(style, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// isTerminal reports whether w shows colours to a person.
func (s stdio) isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || s.getenv("NO_COLOR") != "" || s.getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// notes is where what is not the result goes: beside --json it is no part of
// standard output.
func (c *cli) notes() io.Writer {
	if c.json {
		return c.err
	}
	return c.out
}

// progress says what is going on: one line that is written over on a terminal,
// finished steps elsewhere.
type progress struct {
	w    io.Writer
	live bool
	paint
}

func (c *cli) progress() *progress {
	w := c.notes()
	live := c.isTerminal(w)
	return &progress{w, live, paint{live}}
}

func (p *progress) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

// step replaces the line; without a terminal it says nothing.
func (p *progress) step(format string, args ...any) {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[2K  "+p.in(styleDim, fmt.Sprintf(format, args...)))
	}
}

func (p *progress) clear() {
	if p.live {
		fmt.Fprint(p.w, "\r\x1b[2K")
	}
}

// done leaves a finished step behind.
func (p *progress) done(format string, args ...any) {
	p.clear()
	fmt.Fprintf(p.w, "  %s %s\n", p.in(styleGreen, "✓"), fmt.Sprintf(format, args...))
}

// grid prints rows in columns, all but the first and last to the right; styles
// name the style of each column, and head the first row's.
type grid struct {
	paint
	rows [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) print(w io.Writer, right map[int]bool, styles []string) {
	var widths []int
	for _, row := range g.rows {
		for k, cell := range row {
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], utf8.RuneCountInString(cell))
		}
	}
	for i, row := range g.rows {
		var b strings.Builder
		for k, cell := range row {
			pad := strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell))
			style := styles[min(k, len(styles)-1)]
			if i == 0 {
				style = styleDim
			}
			if right[k] {
				b.WriteString(pad + g.in(style, cell) + "   ")
			} else {
				b.WriteString(g.in(style, cell) + pad + "   ")
			}
		}
		fmt.Fprintln(w, "  "+strings.TrimRight(b.String(), " "))
	}
}

// printDemo prints the whole report.
func (c *cli) printDemo(r *demoReport) error {
	if c.json {
		return c.printJSON(r)
	}
	w := &lastingWriter{w: c.out}
	p := paint{c.isTerminal(c.out)}
	for i := range r.Scenes {
		r.Scenes[i].print(w, p)
	}
	r.meaning(w, p)
	return w.err
}

// lastingWriter keeps the first error of many small writes.
type lastingWriter struct {
	w   io.Writer
	err error
}

func (l *lastingWriter) Write(b []byte) (int, error) {
	n, err := l.w.Write(b)
	if l.err == nil {
		l.err = err
	}
	return n, err
}

func (s *sceneReport) print(w io.Writer, p paint) {
	fmt.Fprintf(w, "\n%s %s\n\n", p.in(styleBold, s.Name), p.in(styleDim, "· "+s.Model))
	s.before(w, p)
	s.printFolds(w, p)
	fmt.Fprintf(w, "\n  %s\n", p.in(styleDim, "CHECKED"))
	for _, c := range s.Checks {
		if c.Failed == "" {
			fmt.Fprintf(w, "  %s %s\n", p.in(styleGreen, "✓"), printable(c.Says))
			continue
		}
		fmt.Fprintf(w, "  %s %s\n    %s\n", p.in(styleRed, "✗"), printable(c.Says), p.in(styleRed, printable(c.Failed)))
	}
}

// before is the table of before and after.
func (s *sceneReport) before(w io.Writer, p paint) {
	d, t := &s.Direct, &s.Through
	g := grid{paint: p}
	g.add("", "DIRECT", "HOLDFAST", "", "")
	both := func(what string, from, to float64, say func(float64) string, note string) {
		g.add(what, say(from), say(to), change(from, to), note)
	}
	tokens := func(what string, from, to usage.Tokens, note string) {
		both(what, float64(from), float64(to), tokensText, note)
	}
	number := func(v float64) string { return count(int64(v)) }
	g.add("requests", count(int64(d.Requests)), count(int64(t.Requests)), "", t.ownCalls())
	both("messages in view at the end", float64(s.Messages), float64(s.Left), number, count(s.Stored)+" in the ledger, each once")
	tokens("tokens of the last prompt", d.Last, t.Last, "")
	tokens("tokens read by the model", d.Read, t.Read, "all requests together")
	tokens("· from its cache", d.Usage.Cached, t.Usage.Cached, "")
	tokens("· anew", d.anew(), t.anew(), "what a fold moves is read anew")
	tokens("tokens of output", d.Usage.Output, t.Usage.Output, "the summaries are among them")
	if d.Priced && t.Priced {
		both("cost at list prices", d.Cost, t.Cost, money, "prices of "+usage.PricesAsOf)
		both("· as the ledger reckons", s.Reckoned.Direct, s.Reckoned.Sent, money, "direct is its estimate")
	}
	both("bytes sent", float64(d.Bytes), float64(t.Bytes), func(v float64) string { return bytesText(int64(v)) },
		percentText(s.PrefixSame, s.First)+" were last turn's, in place")
	g.add("own time per turn", "", milliseconds(s.Own.P50), "", "median; p99 "+milliseconds(s.Own.P99))
	g.add("first byte later by", "", milliseconds(s.Added.P50), "", "median")
	g.add("served from rows", "", fmt.Sprintf("%d of %d", s.Paths[string(session.PathSnapshot)], s.turns()), "", "gates that fired: "+countsText(s.Gates))
	g.print(w, map[int]bool{1: true, 2: true, 3: true}, []string{"", "", styleBold, styleTeal, styleDim})
}

// turns counts them by what served them.
func (s *sceneReport) turns() (n int64) {
	for _, k := range s.Paths {
		n += k
	}
	return n
}

func milliseconds(v float64) string { return fmt.Sprintf("%.1f ms", v) }

// anew is what was not read from cache.
func (b *billReport) anew() usage.Tokens { return b.Read - b.Usage.Cached }

func (s *sceneReport) printFolds(w io.Writer, p paint) {
	if len(s.Folds) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := grid{paint: p}
	g.add("FOLD", "TURN", "MESSAGES", "PROMPT, TOKENS", "", "SAME BEFORE IT", "")
	for _, f := range s.Folds {
		what := printable(f.Topic)
		if len(f.Children) > 0 {
			what = "takes in " + strings.Join(f.Children, ", ") + ": " + what
		}
		g.add(f.Block, count(int64(f.Turn)), count(f.Elements), count(int64(f.PromptBefore))+" → "+count(int64(f.PromptAfter)),
			change(float64(f.PromptBefore), float64(f.PromptAfter)), bytesText(int64(f.PrefixBytes))+", "+count(int64(f.CachedAfter))+" tok", clip(what, topicWidth))
	}
	g.print(w, map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true}, []string{styleBold, "", "", "", styleTeal, "", styleDim})
}

// topicWidth keeps a line of the table of folds within a hundred columns.
const topicWidth = 36

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// meaning says in two lines what the figures mean, and then what they do not.
func (r *demoReport) meaning(w io.Writer, p paint) {
	fmt.Fprintf(w, "\n%s\n", p.in(styleBold, "What this means"))
	folds, bad := 0, len(r.failed())
	var less []string
	for _, s := range r.Scenes {
		folds += len(s.Folds)
		if c := change(s.Direct.Cost, s.Through.Cost); strings.HasPrefix(c, "−") {
			less = append(less, strings.TrimPrefix(c, "−")+" less on "+s.Model)
		}
	}
	switch {
	case bad > 0:
		fmt.Fprintf(w, "  %s\n", p.in(styleRed, fmt.Sprintf("%d of the checks failed: what Holdfast promises did not hold here.", bad)))
	case folds == 0 || less == nil:
		fmt.Fprintln(w, "  So short a session has nothing to fold: Holdfast passed it on and kept the books.")
	default:
		fmt.Fprintf(w, "  The agent did the same work, reply for reply, for %s.\n", strings.Join(less, " and "))
		fmt.Fprintln(w, "  Only what the model summed up itself was taken out, and all of it can be searched and read.")
	}
	for _, line := range []string{
		"The model is scripted; a real one folds at other places and writes other summaries. Its cache",
		"is simulated: what a request shares with the one before, for 5 minutes (chat: 10); twice in the",
		"session a person is away for longer. Output and prompts are counted at four bytes a token.",
	} {
		fmt.Fprintf(w, "  %s\n", p.in(styleDim, line))
	}
}

// tokensText is a number of tokens short enough for a column.
func tokensText(n float64) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%.2f M", n/1e6)
	}
	return count(int64(n))
}

func money(v float64) string { return fmt.Sprintf("$%.2f", v) }

// change is how much less or more the second figure is, nothing for the same.
func change(from, to float64) string {
	if from == 0 {
		return ""
	}
	switch c := math.Round(100 * (to - from) / from); {
	case c < 0:
		return fmt.Sprintf("−%.0f %%", -c)
	case c > 0:
		return fmt.Sprintf("+%.0f %%", c)
	}
	return ""
}

// invite says how to look at what was played.
func (c *cli) invite(st *stage) {
	program, err := os.Executable()
	if err != nil {
		program = "holdfast"
	}
	set := "HOLDFAST_HOME=" + st.home + " "
	if runtime.GOOS == "windows" {
		set = "set HOLDFAST_HOME=" + st.home + "& "
	}
	fmt.Fprintf(c.notes(), "\nThe inspector stays open until Ctrl-C. To look at the sessions, in another terminal:\n\n  %s%s open\n", set, program)
}
