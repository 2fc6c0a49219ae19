package main

import (
	"fmt"
	"io"
	"math"
	"os"
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
	g.add("requests", count(int64(d.Requests)), count(int64(t.Requests)), "", t.ownCalls())
	g.add("messages in view at the end", count(int64(s.Messages)), count(s.Left), change(float64(s.Messages), float64(s.Left)), count(s.Stored)+" kept in the ledger, each once")
	g.add("tokens of the last prompt", tokensText(d.Last), tokensText(t.Last), change(float64(d.Last), float64(t.Last)), "")
	g.add("tokens read by the model", tokensText(d.Read), tokensText(t.Read), change(float64(d.Read), float64(t.Read)), "all requests together")
	g.add("  from its cache", tokensText(d.Usage.Cached), tokensText(t.Usage.Cached), change(float64(d.Usage.Cached), float64(t.Usage.Cached)), "")
	g.add("  anew", tokensText(d.anew()), tokensText(t.anew()), change(float64(d.anew()), float64(t.anew())), "what a fold moves is read anew once")
	g.add("tokens of output", tokensText(d.Usage.Output), tokensText(t.Usage.Output), change(float64(d.Usage.Output), float64(t.Usage.Output)), "with the summaries the model writes")
	if d.Priced && t.Priced {
		g.add("cost at list prices", money(d.Cost), money(t.Cost), change(d.Cost, t.Cost), fmt.Sprintf("of %s; Holdfast itself reckons %s and %s", usage.PricesAsOf, money(s.Reckoned.Direct), money(s.Reckoned.Sent)))
	}
	g.add("bytes sent", bytesText(d.Bytes), bytesText(t.Bytes), change(float64(d.Bytes), float64(t.Bytes)), percentText(s.PrefixSame, s.First)+" were last turn's, at the same place")
	g.add("time of our own per turn", "", fmt.Sprintf("%.1f ms", s.Own.P50), "", fmt.Sprintf("median, p99 %.1f ms; first byte later by %.1f ms in the median", s.Own.P99, s.Added.P50))
	g.add("turns served from", "", servedText(s.Paths), "", "gates that fired: "+countsText(s.Gates))
	g.print(w, map[int]bool{1: true, 2: true, 3: true}, []string{"", "", styleBold, styleTeal, styleDim})
}

// anew is what was not read from cache.
func (b *billReport) anew() usage.Tokens { return b.Read - b.Usage.Cached }

// servedText names the paths as a person reads them.
func servedText(paths map[string]int64) string {
	if n := paths[string(session.PathSnapshot)]; len(paths) == 1 && n > 0 {
		return "rows, all " + count(n)
	}
	return countsText(paths)
}

func (s *sceneReport) printFolds(w io.Writer, p paint) {
	if len(s.Folds) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := grid{paint: p}
	g.add("FOLDS", "TURN", "MESSAGES", "PROMPT", "", "UNCHANGED BEFORE IT", "")
	for _, f := range s.Folds {
		what := printable(f.Topic)
		if len(f.Children) > 0 {
			what = "with " + strings.Join(f.Children, ", ") + " in it · " + what
		}
		g.add(f.Block, count(int64(f.Turn)), count(f.Elements), tokensText(f.PromptBefore)+" → "+tokensText(f.PromptAfter),
			change(float64(f.PromptBefore), float64(f.PromptAfter)), bytesText(int64(f.PrefixBytes))+", "+tokensText(f.CachedAfter)+" tokens from cache", clip(what, 60))
	}
	g.print(w, map[int]bool{1: true, 2: true, 3: true, 4: true}, []string{styleBold, "", "", "", styleTeal, "", styleDim})
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// meaning says in two lines what the figures mean, and what they do not.
func (r *demoReport) meaning(w io.Writer, p paint) {
	fmt.Fprintf(w, "\n%s\n", p.in(styleBold, "What this means"))
	folds, bad := 0, len(r.failed())
	var less []string
	for _, s := range r.Scenes {
		folds += len(s.Folds)
		if s.Direct.Priced && s.Through.Priced {
			less = append(less, strings.TrimPrefix(change(s.Direct.Cost, s.Through.Cost), "−")+" less on "+s.Model)
		}
	}
	switch {
	case bad > 0:
		fmt.Fprintf(w, "  %s\n", p.in(styleRed, fmt.Sprintf("%d of the checks failed: what Holdfast promises did not hold here.", bad)))
	case folds == 0:
		fmt.Fprintln(w, "  The session was too short to fold: Holdfast passed it on and kept the books.")
	default:
		fmt.Fprintf(w, "  The agent did the same work, reply for reply, for %s. Writing the folds is paid for in that.\n", strings.Join(less, " and "))
		fmt.Fprintln(w, "  Nothing the model had not summed up itself was changed, and all of it can still be searched and read in full.")
	}
	fmt.Fprintf(w, "  %s\n", p.in(styleDim, "The model is scripted, its cache simulated: what a request shares with the one before it, for 5 minutes (chat 10). A real model sums up differently."))
}

// tokensText is a number of tokens short enough for a column.
func tokensText(n usage.Tokens) string {
	if n >= 1_000_000 {
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
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
	fmt.Fprintf(c.notes(), "\nThe inspector stays open until Ctrl-C.\n  curl -H \"Authorization: Bearer $(cat %s)\" http://%s/hf/v1/sessions\n", st.app.paths.tokenFile(), st.app.Inspector)
}
