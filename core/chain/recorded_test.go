package chain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/storage/ledger"
)

// The recordings are what real clients sent for our own prompts to a scripted
// model; app's recorder made them and replaced every text that is not ours. A
// golden's comment says what was done in the client and ends in a table with
// the verdict of each request:
//
//	row     of the alignment table, or "side"
//	list    elements of the branch's stored list, then what the inbound did to
//	        it: +appended -rewound =replaced ~removed ^returning
//	home    and path are those of mode on
//	change  the cause of the first changed byte, "-" for a plain extension, and
//	        the place of the change
//
// and the number of ledgers at the end.

// TestRecorded replays every recording through a chain on a real ledger, in
// both modes that write rows, and once more with a restart before every
// request: memory is a cache, so the verdicts are the same.
func TestRecorded(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/recorded/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, file := range files {
		rec := readRecording(t, file)
		for _, c := range []struct {
			name    string
			mode    config.RolloutMode
			restart bool
			want    string
		}{
			{"on", config.On, false, rec.table},
			{"shadow", config.Shadow, false, inShadow(rec.table)},
			{"restarts", config.On, true, rec.table},
		} {
			if raced && !c.restart {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+c.name, func(t *testing.T) {
				if got := play(t, c.mode, c.restart, rec); got != c.want {
					t.Errorf("the verdicts are\n%s\nwant\n%s", got, c.want)
				}
			})
		}
	}
}

// recording is one golden.
type recording struct {
	requests []recordedRequest
	table    string
}

type recordedRequest struct {
	path   string
	header []string // names and values in turn
	body   []byte
}

// tableHead is the first line of the verdicts.
const tableHead = "request  row   list"

func readRecording(t *testing.T, file string) recording {
	t.Helper()
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rec recording
	if i := bytes.Index(ar.Comment, []byte(tableHead)); i >= 0 {
		rec.table = strings.TrimSpace(string(ar.Comment[i:])) + "\n"
	}
	for _, f := range ar.Files {
		head, body, _ := strings.Cut(string(f.Data), "\n\n")
		lines := strings.Split(head, "\n")
		r := recordedRequest{path: strings.TrimPrefix(lines[0], "POST "), body: []byte(strings.ReplaceAll(body, "\n", ""))}
		for _, line := range lines[1:] {
			name, value, _ := strings.Cut(line, ": ")
			r.header = append(r.header, name, value)
		}
		rec.requests = append(rec.requests, r)
	}
	return rec
}

// inShadow is the table of mode on as mode shadow must show it: the same
// verdicts, served by the full path.
func inShadow(table string) string {
	var out strings.Builder
	for line := range strings.Lines(table) {
		for _, home := range []session.Home{session.HomeDegraded, session.HomeSubagent} {
			line = strings.Replace(line, column(home, session.PathSnapshot), column(session.HomeShadow, session.PathFull), 1)
		}
		out.WriteString(line)
	}
	return out.String()
}

// column is how the table spells home and path.
func column(h session.Home, p session.Path) string { return fmt.Sprintf("%-10s  %-8s", h, p) }

// play sends the requests in order and returns their verdicts. What reaches the
// upstream and what replay gives back must be what was sent.
func play(t *testing.T, mode config.RolloutMode, restart bool, rec recording) string {
	t.Helper()
	g := newRig(t, mode)
	log := listen(g)
	var table strings.Builder
	fmt.Fprintf(&table, "%s                   home        path      change\n", tableHead)
	for i, r := range rec.requests {
		if restart {
			g.restart()
			log = listen(g)
		}
		log.aligned = nil
		sent, resp := g.send(r.path, r.body, r.header...)
		if resp.StatusCode != 200 || !bytes.Equal(sent, r.body) {
			t.Fatalf("request %d: status %d, %d bytes reached the upstream, want the %d sent", i+1, resp.StatusCode, len(sent), len(r.body))
		}
		turn := g.lastTurn()
		fmt.Fprintf(&table, "%-7d  %s  %s  %s\n", i+1, alignedAs(log.aligned), column(turn.Home, turn.Path), changed(turn.Change))
		replayed(t, g, turn, r.body)
		compared(t, turn)
	}
	fmt.Fprintf(&table, "ledgers: %d\n", ledgerCount(t, g))
	if len(g.degraded) > 0 {
		t.Errorf("steps down: %+v", g.degraded)
	}
	return table.String()
}

// alignedAs renders the chain's record of an alignment; none is a side request.
func alignedAs(a map[string]int64) string {
	if a == nil {
		return fmt.Sprintf("%-4s  %-21s", "side", "")
	}
	list := fmt.Sprint(a["stored"])
	for _, part := range []struct{ sign, name string }{{"+", "appended"}, {"-", "rewound"}, {"=", "replaced"}, {"~", "removed"}, {"^", "returning"}} {
		if n := a[part.name]; n > 0 {
			list += fmt.Sprintf(" %s%d", part.sign, n)
		}
	}
	return fmt.Sprintf("%-4d  %-21s", a["row"], list)
}

func changed(c *session.FirstChange) string {
	if c == nil {
		return "-"
	}
	return c.Cause + " at " + c.JSONPath
}

// compared wants a turn with rows to have passed the comparison of the paths,
// or, on a machine too slow for its budget, to say that it was skipped.
func compared(t *testing.T, turn session.TurnView) {
	t.Helper()
	if turn.Path != session.PathSnapshot && turn.Home != session.HomeShadow {
		return
	}
	if turn.Compared != session.ByteEqual && turn.Compared != session.Skipped {
		t.Errorf("turn %d: the paths compared %q", turn.ID, turn.Compared)
	}
}

// replayed wants a kept turn's bytes back from the ledger, and nothing of a
// side request.
func replayed(t *testing.T, g *rig, turn session.TurnView, body []byte) {
	t.Helper()
	for _, part := range []chain.Part{chain.Inbound, chain.Outbound} {
		got, err := chain.Replay(context.Background(), g.db, turn.ID, part)
		if turn.Home == session.HomeSide {
			if !errors.Is(err, session.ErrNotKept) {
				t.Errorf("turn %d %s: %v, want not kept", turn.ID, part, err)
			}
			continue
		}
		if part == chain.Outbound {
			got = stripped(got)
		}
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("turn %d: replay of %s gives %d bytes, %v, want the %d sent", turn.ID, part, len(got), err, len(body))
		}
	}
}

func ledgerCount(t *testing.T, g *rig) int {
	t.Helper()
	_, total, err := g.db.Sessions(context.Background(), ledger.SessionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// alignLog keeps the numbers of the chain's last record of an alignment.
type alignLog struct {
	slog.Handler
	aligned map[string]int64
}

func (l *alignLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *alignLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "aligned" {
		l.aligned = map[string]int64{}
		r.Attrs(func(a slog.Attr) bool {
			if a.Value.Kind() == slog.KindInt64 {
				l.aligned[a.Key] = a.Value.Int64()
			}
			return true
		})
	}
	if r.Level >= slog.LevelWarn {
		return l.Handler.Handle(ctx, r)
	}
	return nil
}

// listen restarts the rig's chain with a log that hears alignments.
func listen(g *rig) *alignLog {
	g.t.Helper()
	g.proxy.Close()
	g.chain.Close()
	log := &alignLog{Handler: slog.NewTextHandler(g.t.Output(), nil)}
	var err error
	g.chain, err = chain.New(context.Background(), chain.Options{Ledger: unhurried{g.db}, Tripwire: time.Minute, Upstream: g.client,
		Config: g.config, Log: slog.New(log), Publish: g.publish})
	if err != nil {
		g.t.Fatal(err)
	}
	g.proxy = httptest.NewServer(g.chain)
	return log
}
