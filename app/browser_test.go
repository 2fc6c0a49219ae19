//go:build browser

package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"holdfast/core/content"
	"holdfast/core/demo"
	"holdfast/core/guard"
	"holdfast/core/kv"
	"holdfast/core/session"
	"holdfast/core/tier"
	"holdfast/core/wire"
	"holdfast/web"
)

// exhibit is an App full of things to look at.
type exhibit struct {
	app     *App
	session string // the demo's, with folds
	big     string // ten thousand turns
	turn    int64  // of the demo, behind a fold
}

// Sizes of the exhibit.
const (
	playedTurns = 70 // two folds
	bigTurns    = 10_000
	manyOthers  = 1_000
)

// newExhibit plays the demo and fills the ledger with what takes too long to
// play.
func newExhibit(t *testing.T) *exhibit {
	t.Helper()
	_, url, stop, err := serveModel(playedTurns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	home := t.TempDir()
	a, err := openDemo(t.Context(), home, url)
	if err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(serving) }()
	t.Cleanup(func() {
		end()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	x := &exhibit{app: a, big: "b19" + strings.Repeat("0", 21)}
	x.play(t, playedTurns)
	x.fill(t, a.paths.ledgerFile())
	x.degrade(t)
	a.engine.api.Tier = shownTier{session: x.session}
	return x
}

// play sends turns of the demo through the proxy.
func (x *exhibit) play(t *testing.T, turns int) {
	t.Helper()
	if _, err := playOnce(t.Context(), x.app.BaseURL(), demo.PlayOptions{Turns: turns, Wire: wire.Anthropic}, func(demo.TurnResult) {}); err != nil {
		t.Fatal(err)
	}
	x.app.engine.chain.Idle()
	list, _, err := x.app.engine.views().FindSessions(t.Context(), session.SessionQuery{Page: 1, Size: 1})
	if err != nil || len(list) == 0 {
		t.Fatal("the demo left no session: ", err)
	}
	x.session = list[0].ID
	shown, _, err := x.app.engine.views().Turns(t.Context(), x.session, 1, 3)
	if err != nil || len(shown) == 0 {
		t.Fatal("the demo left no turn: ", err)
	}
	x.turn = shown[0].ID
}

// fill is the fast writer: it copies the demo's rows under other names. Bodies
// are shared; what the copies hold is what a long life leaves.
func (x *exhibit) fill(t *testing.T, file string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(30000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	run := func(q string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(q, args...); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	var elems, turns, last int64
	row := tx.QueryRow("SELECT (SELECT max(n) FROM element WHERE ledger_id = ?1), (SELECT count(*) FROM turn WHERE ledger_id = ?1), (SELECT max(id) FROM turn)", x.session)
	if err := row.Scan(&elems, &turns, &last); err != nil {
		t.Fatal(err)
	}
	run("CREATE TEMP TABLE s AS SELECT * FROM session WHERE ledger_id = ?", x.session)
	run("UPDATE s SET ledger_id = ?, sess_raw = 'big', title = 'Ten thousand turns of one long refactoring', turns = ?, last_seen = last_seen - 3600000", x.big, bigTurns)
	run("INSERT INTO session SELECT * FROM s")
	copyAll(run, x.session, x.big, elems, turns, last)
	for i := range manyOthers {
		run(`UPDATE s SET ledger_id = printf('%024x', ?1 + 4096), sess_raw = 'other ' || ?1, title = ?2 || ', attempt ' || (1 + ?1 / 4), model = ?3, wire = ?4, signal = ?5,
			turns = 1 + ?1 * 7 % 23, input = 40 * (1 + ?1 * 7 % 23), cached = (700 + ?1 * 37 % 900) * (1 + ?1 * 7 % 23), cache_write = (130 + ?1 * 11 % 90) * (1 + ?1 * 7 % 23),
			output = 60 * (1 + ?1 * 7 % 23), cost_micros = (900 + ?1 * 17 % 700) * (1 + ?1 * 7 % 23), last_seen = last_seen - 60000 * (1 + ?1 % 7), head_seq = 0, structure = NULL, rhythm = NULL, next_block = 1`,
			i, []string{"Find the flaky test", "Rename the exported type", "Why is the build slow", "Port the parser"}[i%4],
			[]string{"claude-sonnet-4-5", "gpt-5.2", "gemini-3-pro", "qwen3-coder"}[i%4], []string{"anthropic", "openai", "google", "openai"}[i%4],
			[]string{"x-claude-code-session-id", "x-session-affinity", "x-opencode-session", "x-opencode-session"}[i%4])
		run("INSERT INTO session SELECT * FROM s")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// copyAll repeats a session's elements, rows and turns until there are enough.
func copyAll(run func(string, ...any), from, to string, elems, turns, last int64) {
	copies := (bigTurns + turns - 1) / turns
	run("CREATE TEMP TABLE k AS WITH RECURSIVE n(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM n WHERE k < ?) SELECT k FROM n", copies-1)
	run(`INSERT INTO element SELECT ?2, n + k * ?3, key, ref + k * ?3, tokens, tokens_exact, role, kind, blob, iif(k = 0, state, 'live'), prev + k * ?3, first_turn, cores
		FROM element, k WHERE ledger_id = ?1`, from, to, elems)
	run(`INSERT INTO snap_rows SELECT ?2, row_id + k * 100000, epoch, pos + k * ?3, sub, elem + k * ?3, 'big', msgid, canon_id, kind, role, ctype, tool_name, call_id, wire, raw,
		iif(k = 0, overlay, NULL), iif(k = 0, active, 1), iif(k = 0, covered_by, NULL), cause, row_sum, state_sum, born_ck, changed_ck, created_at
		FROM snap_rows, k WHERE ledger_id = ?1 AND (k = 0 OR kind <> 'carrier') ORDER BY k, row_id`, from, to, elems)
	run("CREATE TEMP TABLE t AS SELECT row_number() OVER (ORDER BY k, id) + ? AS copy, turn.*, k FROM turn, k WHERE ledger_id = ? LIMIT ?", last, from, bigTurns)
	run("UPDATE t SET id = copy, ledger_id = ?, kept = 0, why = 'recorded by size and hash only', list_prev = 0, list_common = 0, list_own = 0, list_depth = 0, at = at - 3600000", to)
	run(`INSERT INTO turn SELECT ` + turnColumns + ` FROM t ORDER BY copy`)
	run("INSERT INTO ckpt SELECT ?2, seq, epoch, pos_hi, row_hi, reason, NULL, meta_json, frame_sig, created_at FROM ckpt WHERE ledger_id = ?1", from, to)
}

const turnColumns = `id, ledger_id, signal, sess_raw, lane, at, home, model, route, wire_in, wire_out, path, gate, stream, encoding, bytes_in, bytes_out, in_hash, out_hash,
	kept, why, finished_at, status, truncated, error, reply_model, stop_reason, input, cached, cache_write, output, source, reported, cost_micros, priced, rounds, prefix_same,
	verdict, verdict_why, ms, first_change, reply_type, reply_enc, reply_bytes, reply_hash, reply_why, list_prev, list_common, list_own, list_depth, fields, view, skeleton, list`

// degrade writes a step down of each gate and of none through the ledger.
func (x *exhibit) degrade(t *testing.T) {
	t.Helper()
	for i, d := range []session.DegradeView{
		{Gate: "R1", Scope: "session", Cause: string(session.CauseOrder), Evidence: "element 12 before 9", Served: session.PathFull},
		{Gate: "R2", Scope: "turn", Cause: string(session.CauseEventAddress), Evidence: "two rows fit fold b3", Served: session.PathFull},
		{Gate: "R3", Scope: "session", Cause: string(session.CauseTripwire), Evidence: "byte 2,114 of $.messages[3]", Served: session.PathFull},
		{Gate: "R3", Scope: "turn", Cause: string(session.CauseSlow), Evidence: "commit took 311 ms", Served: session.PathFull},
		{Gate: "R4", Scope: "session", Cause: string(session.CausePending), Evidence: "mark of process 4711", Served: session.PathFull},
		{Scope: "turn", Cause: string(session.CauseDuplicateKey), Evidence: "key model at byte 812", Served: session.PathVerbatim},
	} {
		d.BytesChanged = d.Served == session.PathFull // it has folds
		d.At, d.Session, d.Turn = time.Now().UnixMilli()-int64(i)*70_000, x.session, x.turn
		if _, err := x.app.engine.ledger.Degrade(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// shownTier is a KV tier with an inventory; nothing of it is real but its form.
type shownTier struct{ session string }

func (s shownTier) Status() kv.Status {
	const gib = kv.Bytes(1 << 30)
	st := kv.Status{Version: kv.StatusVersion, FormatVersion: 1,
		Configured: kv.StatusConfigured{Mode: "auto", Directory: "/var/lib/holdfast/kv", BudgetBytes: 32 * gib, ReserveBytes: 16 * gib},
		Effective:  kv.StatusEffective{State: kv.StateActive, PendingRestart: []string{"kv.disk.directory"}},
		Usage: kv.StatusUsage{BudgetBytes: 32 * gib, UsedBytes: 21 * gib, ReservedInflightBytes: gib / 2, FilesystemAvailableBytes: 118 * gib, ReserveBytes: 16 * gib,
			Manifests: 61, UniqueSegments: 512, QuarantinedObjects: 1},
		Activity: kv.StatusActivity{Fills: 41, Hits: 41, RestoresOK: 40, RestoreFailures: 1, Writes: 97, Evictions: 12, CorruptEntries: 1, BytesRead: 38 * gib, BytesWritten: 27 * gib,
			SecondsSavedEstimate: 4_180, Misses: map[kv.MissReason]int64{kv.MissNeverSeen: 19, kv.MissBelowMinTokens: 31, kv.MissResidentIsLonger: 12, kv.MissIdentity: 2}}}
	for i := range 61 {
		id := content.Of(fmt.Append(nil, "state ", i))
		e := kv.StatusEntry{ModelIdentity: kv.ModelIdentity(content.Of(fmt.Append(nil, "model ", i%3))), StateIdentity: kv.StateID(id), Tokens: kv.Tokens(900 + 731*i%30_000),
			Bytes: kv.Bytes(40+9*i) << 20, ExclusiveBytes: kv.Bytes(3+i%40) << 20, LastUsed: time.Now().Add(-time.Duration(i*i) * time.Minute)}
		if i%4 != 3 {
			e.Sessions = []string{s.session}
		}
		st.Inventory = append(st.Inventory, e)
	}
	return st
}

func (s shownTier) Written() (today, limit kv.Bytes) { return 9 << 30, 64 << 30 }

func (s shownTier) Mismatch() (fields []string, at time.Time) {
	return []string{"cache-type-k", "ctx-size"}, time.Now().Add(-3 * time.Hour)
}

func (s shownTier) Prune(context.Context, tier.PruneRequest) (tier.Pruned, error) {
	return tier.Pruned{Plan: kv.Plan{Before: 31 << 30, After: 27 << 30, Manifests: 61, Removed: 2, Reached: true, Steps: []kv.Step{
		{Kind: kv.RemoveManifest, Tokens: 4_100, Frees: 0, Used: 31 << 30, Why: "least worth for its room: 4,100 tokens, last used 9 d ago"},
		{Kind: kv.RemoveManifest, Tokens: 12_030, Frees: 0, Used: 31 << 30, Why: "least worth for its room: 12,030 tokens, last used 6 d ago"},
	}}}, nil
}

func (s shownTier) Clear(context.Context, *kv.ModelIdentity, bool) (tier.Pruned, error) {
	return tier.Pruned{}, nil
}

func (s shownTier) Verify(context.Context, *kv.ModelIdentity) (tier.Verification, error) {
	return tier.Verification{}, nil
}

// sight is a page that is looked at; one that only varies another is looked at
// in one theme.
type sight struct {
	name, path string
	variant    bool
}

// sights are all of them.
func (x *exhibit) sights() []sight {
	one := "/ui/sessions/" + x.session
	turn := fmt.Sprintf("/ui/turns/%d", x.turn)
	return []sight{
		{"overview", "/ui/", false}, {"sessions", "/ui/sessions", false}, {"sessions-filtered", "/ui/sessions?q=flaky&model=claude-sonnet-4-5&sort=turns&page=2", true},
		{"sessions-none", "/ui/sessions?q=nothing+like+it", true}, {"ledger", one, false}, {"ledger-first", one + "?page=1", true}, {"map", one + "/map", false}, {"turns", one + "/turns", false},
		{"turn", turn, false}, {"turn-inbound", turn + "?side=inbound", true}, {"turn-response", turn + "?side=response", true},
		{"big-ledger", "/ui/sessions/" + x.big, true}, {"big-map", "/ui/sessions/" + x.big + "/map", true}, {"big-turns", "/ui/sessions/" + x.big + "/turns?page=100", true},
		{"degrades", "/ui/degrades", false}, {"cache", "/ui/cache?dry=1", false}, {"settings", "/ui/settings", false}, {"connect", "/ui/connect?agent=claude&since=1", false}, {"help", "/ui/help", false},
		{"missing", "/ui/sessions/there-is-none", true},
	}
}

// TestBrowser looks at every page with a real browser.
func TestBrowser(t *testing.T) {
	x := newExhibit(t)
	b := openTab(t, x.app.Inspector)
	code := x.app.engine.api.Desk.NewCode()
	b.signIn(code)
	t.Run("pages", func(t *testing.T) { b.t = t; x.pages(b) })
	t.Run("keys", func(t *testing.T) { b.t = t; x.keys(b) })
	t.Run("live", func(t *testing.T) { b.t = t; x.live(b) })
	t.Run("scripts", func(t *testing.T) { b.t = t; x.scripts(b) })
	t.Run("theme", func(t *testing.T) { b.t = t; x.theme(b) })
	t.Run("forms", func(t *testing.T) { b.t = t; x.forms(b) })
	t.Run("strangers", func(t *testing.T) { b.t = t; x.strangers(b, code) })
	t.Run("via", func(t *testing.T) { b.t = t; x.via(b) }) // last: its page leaves windows open
	b.t = t
}

// pages: in both themes nothing is wrong with any page, wide or narrow; a
// reload shows the same again.
func (x *exhibit) pages(b *tab) {
	for _, theme := range []string{"light", "dark"} {
		b.scheme(theme)
		for _, s := range x.sights() {
			if s.variant && theme == "dark" {
				continue
			}
			b.width(1440)
			b.open(s.path)
			at := s.name + " " + theme
			if s.name == "missing" {
				b.bad = nil // a browser logs every 404
			}
			b.t.Logf("%-24s %s", at, b.paint())
			b.accessible(at)
			b.shot(s.name + "-" + theme)
			b.width(360)
			if over := eval[float64](b, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				b.t.Errorf("%s: %.0f px too wide for a window of 360", at, over)
			}
			b.accessible(at + " 360")
			b.shot(s.name + "-360-" + theme)
			b.clean(at)
		}
	}
	b.width(1440)
	for _, s := range x.sights() {
		if s.name == "missing" {
			continue
		}
		b.open(s.path)
		// What changes by itself is left out: times, tokens of forms.
		const still = `[location.pathname + location.search, document.querySelector("main h1, main .prose h1")?.textContent, [...document.querySelectorAll("main select, main input:not([type=hidden])")].map(e => e.value).join("|"), document.querySelector(".pager p")?.textContent].join(" / ")`
		before := eval[string](b, still)
		b.open(s.path)
		if after := eval[string](b, still); after != before {
			b.t.Errorf("%s: a reload shows %q, before %q", s.name, after, before)
		}
	}
	b.clean("reload")
}

// keys plays the table.
func (x *exhibit) keys(b *tab) {
	fill := strings.NewReplacer("{session}", x.session, "{turn}", fmt.Sprint(x.turn))
	for _, c := range web.KeyTable() {
		page := fill.Replace(c.Page)
		b.open(page)
		b.still()
		b.press(c.Press)
		at := fmt.Sprintf("%s, keys %s", c.Page, c.Press)
		if c.At != "" {
			want := fill.Replace(c.At)
			b.until(fmt.Sprintf("location.pathname.startsWith(%q) && %s", want, ready))
		}
		if c.Focus != "" { // a dialog closes when the browser comes to it
			b.until(fmt.Sprintf("document.activeElement.matches(%q)", c.Focus))
		}
		b.clean(at)
	}
}

// live: a turn that ends elsewhere changes the page without moving what is
// being looked at, and without taking the focus.
func (x *exhibit) live(b *tab) {
	b.open("/ui/sessions/" + x.session + "/turns")
	b.press("j j j j j j j j j j j j")
	eval[bool](b, "(window.scrollTo(0, 300), true)")
	const state = `JSON.stringify([scrollY, document.activeElement.getAttribute("href")])`
	before, turns := eval[string](b, state), eval[string](b, `document.querySelector("#session-head .stat-value").textContent`)
	x.app.engine.hub.Publish("config", map[string]string{})
	b.until(`Number(document.body.dataset.refreshed) >= 1`)
	if after := eval[string](b, state); after != before {
		b.t.Errorf("an event moved the page: %s, before %s", after, before)
	}
	db := x.app.engine.ledger
	if err := x.touch(db.NextTurn()); err != nil {
		b.t.Fatal(err)
	}
	x.app.engine.hub.Publish("turn.finished", map[string]string{})
	b.until(fmt.Sprintf(`document.querySelector("#session-head .stat-value").textContent !== %q`, turns))
	if after := eval[string](b, state); after != before {
		b.t.Errorf("a turn moved the page: %s, before %s", after, before)
	}
	if said := eval[string](b, `document.querySelector("#announce").textContent`); said == "" {
		b.t.Error("nothing was announced")
	}
	b.clean("live")
}

// touch counts one more turn of the session, as Finish does.
func (x *exhibit) touch(int64) error {
	db, err := sql.Open("sqlite", "file:"+x.app.paths.ledgerFile()+"?_pragma=busy_timeout(30000)")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.Exec("UPDATE session SET turns = turns + 1 WHERE ledger_id = ?", x.session)
	return err
}

// scripts: a page is live in whatever order its scripts arrive.
func (x *exhibit) scripts(b *tab) {
	b.late("hx-sse.min.js", "app.js")
	b.open("/ui/help") // waits for the stream
	b.late()
	b.clean("late scripts")
}

// theme: the owner's choice wins over the system's and outlives a reload.
func (x *exhibit) theme(b *tab) {
	const colour = `getComputedStyle(document.body).backgroundColor`
	b.scheme("light")
	b.open("/ui/help")
	light := eval[string](b, colour)
	for _, want := range []string{"light", "dark"} {
		b.until(`document.querySelector(".theme input[name=theme]").value === ` + fmt.Sprintf("%q", want))
		eval[bool](b, `(document.querySelector(".theme button").click(), true)`)
		b.until(fmt.Sprintf("document.documentElement.dataset.theme === %q", want))
	}
	dark := eval[string](b, colour)
	if dark == light {
		b.t.Errorf("both themes are %s", dark)
	}
	b.until(`document.querySelector(".theme input[name=theme]").value === "system"`)
	b.open("/ui/help")
	if got := eval[string](b, colour); got != dark {
		b.t.Errorf("after a reload the page is %s, want %s", got, dark)
	}
	eval[bool](b, `(document.querySelector(".theme button").click(), true)`)
	b.until(`document.documentElement.dataset.theme === ""`)
	b.clean("theme")
}

// forms: a switch does what it says, a value is judged as it is typed, and
// destructive forms ask first.
func (x *exhibit) forms(b *tab) {
	b.open("/ui/")
	b.press("b")
	b.until(`document.querySelector("#state").textContent.includes("Bypassed") && ` + ready)
	if !x.app.settings.Current().Bypass {
		b.t.Error("the page says bypassed, the settings do not")
	}
	b.press("b")
	b.until(`!document.querySelector("#state").textContent.includes("Bypassed") && ` + ready)

	b.open("/ui/settings")
	eval[bool](b, `(() => { const f = document.querySelector("#f-ledger-budget-v"); f.value = "3 bananas"; f.dispatchEvent(new Event("input", {bubbles: true})); return true })()`)
	b.until(`document.querySelector("#f-ledger-budget-p .wrong")`)
	eval[bool](b, `(() => { const f = document.querySelector("#f-ledger-budget-v"); f.value = "3GiB"; f.dispatchEvent(new Event("input", {bubbles: true})); return true })()`)
	b.until(`!document.querySelector("#f-ledger-budget-p .wrong")`)
	eval[bool](b, `(document.querySelector("#f-ledger-budget button").click(), true)`)
	b.until(`location.search.includes("saved=ledger.budget") && ` + ready)
	if got := x.app.settings.Current().Ledger.Budget.String(); got != "3GiB" {
		b.t.Errorf("the budget is %s", got)
	}

	b.open("/ui/sessions/" + x.big)
	eval[bool](b, `(document.querySelector("form[action$='/delete'] button").click(), true)`)
	b.until(`document.querySelector("#confirm").open`)
	b.press("Escape")
	b.until(`!document.querySelector("#confirm").open`)
	if _, err := x.app.engine.views().Session(b.t.Context(), x.big); err != nil {
		b.t.Error("a deletion that was not confirmed happened: ", err)
	}
	eval[bool](b, `(document.querySelector("[data-row]").click(), true)`)
	b.until(`document.querySelector("details[open] .part-text")`)
	b.clean("forms")
}

// strangers: the code that was used opens nothing, and without the cookie a
// browser is told what to do.
func (x *exhibit) strangers(b *tab, spent string) {
	res, err := http.PostForm("http://"+x.app.Inspector+guard.LoginPath, map[string][]string{"code": {spent}})
	if err != nil {
		b.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden || len(res.Cookies()) != 0 {
		b.t.Errorf("a spent code: %s, cookies %v", res.Status, res.Cookies())
	}
	// localhost is another site than 127.0.0.1: the cookie is not sent.
	known := b.host
	b.host = strings.Replace(known, "127.0.0.1", "localhost", 1)
	b.scheme("light")
	b.doStranger()
	b.host = known
}

// doStranger opens the inspector under a name the browser has no cookie for.
func (b *tab) doStranger() {
	b.t.Helper()
	b.visit("/ui/sessions")
	b.until(`document.body.textContent.includes("holdfast open")`)
	b.mu.Lock()
	b.bad = nil // a browser logs every 401
	b.mu.Unlock()
	b.accessible("stranger")
	b.shot("stranger-light")
}
