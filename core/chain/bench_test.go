package chain_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
)

// BenchmarkTurn measures a turn that appends two elements, in process, the
// upstream's round trip on loopback included.
func BenchmarkTurn(b *testing.B) {
	for _, size := range []struct {
		name        string
		elems, text int
	}{{"2KB", 4, 400}, {"1MB", 800, 1200}} {
		b.Run(size.name, func(b *testing.B) { benchTurn(b, size.elems, size.text) })
	}
}

// benchSession is how many turns a session lasts before the next one starts:
// the body must stay near its nominal size.
const benchSession = 40

func benchTurn(b *testing.B, elems, text int) {
	g := newRig(b, config.Shadow)
	g.options = func(o *chain.Options) { o.Ledger = g.db } // commits as slow as they are
	g.restart()
	filler := strings.Repeat("lorem ipsum ", text/12)
	var msgs []string
	sess := 0
	send := func() {
		body := anthropicBody(msgs...)
		r := httptest.NewRequest("POST", "/via/"+g.up.URL+anthropicPath, bytes.NewReader(body))
		r.Header.Set(sessionHeader, fmt.Sprintf("s%d", sess))
		w := httptest.NewRecorder()
		g.chain.ServeHTTP(w, r)
		if w.Code != 200 {
			b.Fatal(w.Code)
		}
		g.bodies = g.bodies[:0]
	}
	begin := func() {
		sess++
		msgs = msgs[:0]
		for i := range elems {
			msgs = append(msgs, user(fmt.Sprintf("%d %d %s", sess, i, filler)))
		}
		send()
		g.chain.Idle()
	}
	begin()
	n := 0
	for b.Loop() {
		if n++; n%benchSession == 0 {
			b.StopTimer()
			begin()
			b.StartTimer()
		}
		msgs = append(msgs, assistant(fmt.Sprintf("%d %s", n, filler)), user(fmt.Sprintf("%d more %s", n, filler)))
		send()
	}
	st := g.chain.Status()
	b.ReportMetric(st.CommitP50, "commit-p50-ms")
	b.ReportMetric(st.CommitP95, "commit-p95-ms")
	g.chain.Idle()
	for name, of := range map[string]func(session.StageTimes) float64{
		"identify": func(m session.StageTimes) float64 { return m.Identify },
		"rewrite":  func(m session.StageTimes) float64 { return m.Decode + m.Rewrite },
		"encode":   func(m session.StageTimes) float64 { return m.Encode },
		"upstream": func(m session.StageTimes) float64 { return m.UpstreamFirst },
	} {
		b.ReportMetric(median(g.turns, of), name+"-p50-ms")
	}
}

func median(turns []session.TurnView, of func(session.StageTimes) float64) float64 {
	v := make([]float64, len(turns))
	for i := range turns {
		v[i] = of(turns[i].Ms)
	}
	slices.Sort(v)
	return v[len(v)/2]
}
