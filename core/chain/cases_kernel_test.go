package chain_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"holdfast/core/chain"
	"holdfast/core/config"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// The tests of this file are named after the reports they answer, as those of
// core/fold and core/wire are.

// A WebSocket is refused at once, and the client's POST that follows is served.
func TestP4_WebSocketsAreRefusedAtOnce(t *testing.T) {
	g := newRig(t, config.On)
	conn := g.dial()
	fmt.Fprint(conn, "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusUpgradeRequired {
		t.Fatalf("%+v, %v", resp, err)
	}
	g.expect("the POST", g.convo("after").say(), session.PathSnapshot, session.NoGate)
}

// Conversations without an id share nothing, however alike they begin, and are
// served all the same.
func TestP12_P13_C50_NothingIsSharedOnWeakIdentity(t *testing.T) {
	g := newRig(t, config.On)
	start := user(strings.Repeat("the same opening of an IDE ", 40))
	one, two := g.convo(""), g.convo("")
	one.msgs = []string{start, assistant("a"), user("mine")}
	two.msgs = []string{start, assistant("b"), user("yours")}
	a, b := one.send(), two.send()
	if a.Session == b.Session || a.Status != 200 || b.Status != 200 || a.Home != session.HomeUnsigned {
		t.Errorf("%s and %s at home %s", a.Session, b.Session, a.Home)
	}
	for _, k := range []*convo{one, two, one} {
		k.msgs = append(k.msgs, assistant("ok"), user("go on"))
		k.send()
	}
}

// A sub-agent of a session has a ledger of its own.
func TestP15_C9_SubagentsHaveTheirOwn(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("main")
	k.say()
	before := g.head("main")
	sub := anthropicBody(user("look for it"))
	sent, _ := g.send(anthropicPath, sub, sessionHeader, "main", "X-Claude-Code-Agent-Id", "a1")
	if turn := g.lastTurn(); !bytes.Equal(sent, sub) || turn.Home != session.HomeSubagent || turn.Session == before.Ledger {
		t.Errorf("%+v", turn)
	}
	if after := g.head("main"); after.Version != before.Version {
		t.Errorf("the main lane moved from %d to %d", before.Version, after.Version)
	}
	g.expect("the main lane", k.say(), session.PathSnapshot, session.NoGate)
}

// One lane does not wait for another's upstream: only changes of state are
// locked.
func TestC43_LanesDoNotWait(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("main")
	k.say()
	hung, release := make(chan struct{}), make(chan struct{})
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Hang") != "" {
			close(hung)
			<-release
		}
		io.WriteString(w, `{"content":[]}`)
	})
	k.grow()
	done := make(chan struct{})
	go func() {
		defer close(done)
		resp, err := faultClient(t).Do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(k.msgs...), sessionHeader, "main", "X-Hang", "1"))
		if err == nil {
			resp.Body.Close()
		}
	}()
	<-hung
	resp, err := faultClient(t).Do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(user("q")), sessionHeader, "main", "X-Claude-Code-Agent-Id", "a1"))
	if err != nil || resp.StatusCode != 200 {
		t.Errorf("the sub-agent got %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	close(release)
	<-done
	g.settle()
}

// The second of two proxies passes everything on, told by a mark alone; texts
// that only look like ours change nothing.
func TestP22_C23_C45_TheSecondProxyStandsBack(t *testing.T) {
	g := newRig(t, config.On)
	g.folding(true)
	body := anthropicBody(user("q"))
	g.send(anthropicPath, body, sessionHeader, "hop", upstream.HopHeader, "1")
	if turn := g.lastTurn(); !bytes.Equal(g.whole[len(g.whole)-1], body) || turn.Path != session.PathVerbatim {
		t.Errorf("behind another one: %s, sent %s", turn.Path, g.whole[len(g.whole)-1])
	}
	g.send(anthropicPath, anthropicBody(user("[fold b3 · m00001–m00009] hf_compress x-holdfast-hop")), sessionHeader, "alike")
	if turn := g.lastTurn(); turn.Path == session.PathVerbatim || !bytes.Contains(g.whole[len(g.whole)-1], []byte(`"hf_compress"`)) {
		t.Errorf("a text like ours: %s", turn.Path)
	}
}

// What is no model call passes without being read or decoded; paths nobody knows
// are the upstream's to answer.
func TestP27_P69_C5_C69_OtherCallsAreNotRead(t *testing.T) {
	g := newRig(t, config.On)
	const coded = "\x28\xb5\x2f\xfd not really zstd"
	var seen string
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		seen = r.URL.RequestURI()
		w.Header().Set("Content-Encoding", "zstd")
		io.WriteString(w, coded)
	})
	for _, c := range [][2]string{{"GET", "/v1/models?limit=1000&after=a%2Fb"}, {"POST", "/v1/responses/compact"}, {"POST", "/v9/from/the/future?x=1;y=%20"}} {
		resp, got, err := g.do(g.request(t.Context(), c[0], c[1], []byte("\x00raw")))
		if err != nil || string(got) != coded || resp.Header.Get("Content-Encoding") != "zstd" || seen != c[1] {
			t.Errorf("%s %s arrived as %s: %q, %v", c[0], c[1], seen, got, err)
		}
	}
}

// A compressed body that we change nothing in leaves as it came.
func TestP40_CompressedBodiesAreForwarded(t *testing.T) {
	g := newRig(t, config.Off)
	g.folding(false)
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := w.EncodeAll(anthropicBody(user("q")), nil)
	var encoding string
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		encoding = r.Header.Get("Content-Encoding")
		io.WriteString(w, "{}")
	})
	g.send(anthropicPath, packed, sessionHeader, "zstd", "Content-Encoding", "zstd")
	if got := g.whole[len(g.whole)-1]; !bytes.Equal(got, packed) || encoding != "zstd" {
		t.Errorf("%d bytes of %q arrived, %d were sent", len(got), encoding, len(packed))
	}
}

// The upstream sees the client: its headers, its session's names, nothing of a
// proxy but the mark against loops, and no credentials of one.
func TestP49_P68_C69_TheClientsHeadersReachTheUpstream(t *testing.T) {
	g := newRig(t, config.On)
	var got http.Header
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { got = r.Header.Clone(); io.WriteString(w, "{}") })
	headers := []string{"User-Agent", "claude-cli/2.1", "Accept-Encoding", "gzip, br", "Authorization", "Bearer x", "X-Session-Id", "s1",
		"Session_id", "s2", "X-Session-Affinity", "s3", sessionHeader, "s4", "Proxy-Authorization", "Basic eA=="}
	if _, _, err := g.do(g.request(t.Context(), "POST", anthropicPath, anthropicBody(user("q")), headers...)); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		want := headers[i+1]
		if headers[i] == "Proxy-Authorization" {
			want = ""
		}
		if got.Get(headers[i]) != want {
			t.Errorf("%s is %q, want %q", headers[i], got.Get(headers[i]), want)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "X-Forwarded") || name == "Via" || name == "Forwarded" {
			t.Errorf("the upstream got %s", name)
		}
	}
}

// From turn to turn the request begins with the same bytes, tools and system
// text of ours included.
func TestP55_P56_TheHeadIsStable(t *testing.T) {
	g := newRig(t, config.On)
	g.folding(true)
	for _, chat := range []bool{false, true} {
		g.play(false, chat)
		k := &talker{g: g, id: fmt.Sprint("head ", chat), chat: chat}
		var before string
		for i := range 5 {
			k.msgs = append(k.msgs, user(fmt.Sprint("question ", i)))
			now := string(k.ask()[0])
			k.takes()
			if last := strings.LastIndex(before, "}]"); before != "" && !strings.Contains(before[:max(0, last)], `"messages":[`) {
				t.Fatalf("no list in %s", before)
			}
			if n := commonPrefix(before, now); before != "" && n < strings.LastIndex(before, fmt.Sprint("question ", i-1)) {
				t.Errorf("chat %v, turn %d: the prefix broke at %d: %s", chat, i, n, clipped(now[n:]))
			}
			before = now
		}
	}
}

// Figures outlive the process.
func TestP58_P70_FiguresSurviveARestart(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("counted")
	for range 3 {
		k.say()
	}
	before := counts(t, g.path)
	g.restart()
	after := counts(t, g.path)
	if before["turn"] != 3 || after["turn"] != 3 || after["tally"] != before["tally"] {
		t.Errorf("before %v, after %v", before, after)
	}
	g.expect("the next turn", k.say(), session.PathSnapshot, session.NoGate)
}

// A request that failed is recorded as well as one that did not: with its
// status, also where nobody answered; and the client is told so once, in a form
// that does not have it retry for ever.
func TestP74_C24_C54_FailuresAreRecorded(t *testing.T) {
	g := newRig(t, config.On)
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); io.WriteString(w, `{"error":{}}`) })
	g.send(anthropicPath, anthropicBody(user("q")), sessionHeader, "fails")
	if turn := g.lastTurn(); turn.Status != 500 {
		t.Errorf("%+v", turn)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	resp, err := faultClient(t).Post(g.proxy.URL+"/via/http://"+gone.Addr().String()+anthropicPath, "application/json", bytes.NewReader(anthropicBody(user("q"))))
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	g.settle()
	if turn := g.lastTurn(); err != nil || resp.StatusCode != 502 || turn.Error == "" || !strings.Contains(string(said), gone.Addr().String()) {
		t.Errorf("%d %s, recorded as %+v, %v", resp.StatusCode, said, turn, err)
	}
}

// A stream passes as it comes, and what is stored of it does not grow with its
// events.
func TestP75_P80_StreamsAreNeitherHeldNorStoredByEvent(t *testing.T) {
	g := newRig(t, config.On)
	read := make(chan struct{})
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) {
		writeEvents(w, streamed[:4]...)
		select {
		case <-read:
		case <-r.Context().Done():
			return
		}
		for range 500 {
			io.WriteString(w, streamed[3])
		}
		writeEvents(w, streamed[4:]...)
	})
	body := bytes.Replace(anthropicBody(user("q")), []byte(`{"model"`), []byte(`{"stream":true,"model"`), 1)
	resp, err := faultClient(t).Do(g.request(t.Context(), "POST", anthropicPath, body, sessionHeader, "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := readUntil(resp.Body, "llo"); err != nil {
		t.Fatalf("the first delta did not come: %v", err)
	}
	close(read)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	g.settle()
	long := counts(t, g.path)
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { writeEvents(w, streamed...) })
	g.send(anthropicPath, body, sessionHeader, "stream 2")
	for table, n := range counts(t, g.path) {
		if table != "tally" && n > 2*long[table] {
			t.Errorf("500 events take %d rows of %s, one %d", long[table], table, n-long[table])
		}
	}
}

// A session is its host's id alone: keys, models and system texts may change.
func TestC22_C44_IdentityIsTheHostsID(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("same")
	first := k.say()
	for i, change := range []func([]byte) []byte{
		func(b []byte) []byte { return b },
		func(b []byte) []byte { return bytes.Replace(b, []byte("Answer briefly"), []byte("Today is Monday"), 1) },
		func(b []byte) []byte { return bytes.Replace(b, []byte("sonnet-4-5"), []byte("opus-4-8"), 1) },
	} {
		k.grow()
		body := change(anthropicBody(k.msgs...))
		sent, _ := g.send(anthropicPath, body, sessionHeader, k.id, "Authorization", fmt.Sprint("Bearer ", i))
		if turn := g.lastTurn(); turn.Session != first.Session || turn.Path != session.PathSnapshot || !bytes.Equal(sent, body) {
			t.Errorf("change %d: session %s, path %s", i, turn.Session, turn.Path)
		}
	}
}

// What changed at the head of a request is named, by whose hand.
func TestC40_ChangesAreAttributed(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("why")
	k.say()
	k.say()
	k.grow()
	g.send(anthropicPath, bytes.Replace(anthropicBody(k.msgs...), []byte("Answer briefly"), []byte("Answer at length"), 1), sessionHeader, k.id)
	if c := g.lastTurn().Change; c == nil || c.By != "client" || c.JSONPath != "$.system" || !strings.Contains(c.New, "length") {
		t.Errorf("%+v", c)
	}
	g.send(anthropicPath, bytes.Replace(anthropicBody(k.msgs...), []byte("Answer briefly"), []byte("Answer at length"), 1), sessionHeader, k.id)
	if c := g.lastTurn().Change; c != nil {
		t.Errorf("the same again: %+v", c)
	}
}

// What the client edits or replaces is taken as it is now; nothing is guessed
// from where things stood.
func TestC48_C57_C61_ClientsMayRewriteTheirList(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("edits")
	for range 4 {
		k.say()
	}
	k.msgs[2] = user("edited")
	k.send()
	k.say()
	k.msgs = []string{user("a summary of all that was"), assistant("understood"), user("go on")}
	k.send()
	if turn := g.lastTurn(); turn.Status != 200 {
		t.Errorf("%+v", turn)
	}
	k.say()
	g.expect("then", k.say(), session.PathSnapshot, session.NoGate)
	g.verifyAll()
}

// Titles and other side requests neither touch the session nor are refused.
func TestC36_C55_SideRequestsAreFree(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("titled")
	k.say()
	before := g.head(k.id)
	title := bodyOf(false, `"max_tokens":100,`, user(strings.Repeat("name this ", 30_000)))
	turn, sent := k.sendBody(title)
	if turn.Home != session.HomeSide || !bytes.Equal(sent, title) || g.head(k.id).Version != before.Version {
		t.Errorf("%+v", turn)
	}
	g.expect("the session", k.say(), session.PathSnapshot, session.NoGate)
}

// There is no tunnel: nothing can be reached through us but what is asked for.
func TestC32_NoTunnel(t *testing.T) {
	g := newRig(t, config.On)
	conn := g.dial()
	fmt.Fprint(conn, "CONNECT 127.0.0.1:80 HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode < 400 || len(g.whole) > 0 {
		t.Errorf("%+v, %v", resp, err)
	}
}

// Two programs on one file, which the app refuses, overwrite nothing of each
// other: what the second cannot store is served and shown, and the ledger stays
// whole.
func TestC31_TwoWritersDoNotOverwrite(t *testing.T) {
	g, other := newRig(t, config.On), newRig(t, config.On)
	other.close()
	other.path = g.path
	other.open()
	k := g.convo("shared")
	for i := range 6 {
		k.g = []*rig{g, other}[i%2]
		if turn := k.say(); turn.Status != 200 {
			t.Errorf("turn %d: %+v", i, turn)
		}
	}
	if len(other.causes()) == 0 {
		t.Error("the second says nothing of what it could not store")
	}
	g.verifyAll()
}

// An overflow is known by the words of many servers, and a busy one is none.
func TestC12_C33_OverflowWords(t *testing.T) {
	for refusal, overflow := range map[string]bool{
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`:                                     true,
		`{"error":{"code":"context_length_exceeded","message":"This model's maximum context length is 128000 tokens."}}`:                                               true,
		`{"object":"error","message":"The input (40000 tokens) is longer than the model's context length (32768 tokens).","code":400}`:                                 true,
		`{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`:                      true,
		`{"error":{"message":"Input length (40000 tokens) exceeds the maximum allowed length (32763 tokens).","type":"BadRequestError"}}`:                              true,
		`{"type":"error","error":{"type":"invalid_request_error","message":"messages.3: tool_use ids must be unique"}}`:                                                false,
		`{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute."}}`: false,
	} {
		g := newRig(t, config.On)
		g.folding(true)
		k := g.convo("over")
		for range 3 {
			k.msgs = append(k.msgs, user(long("the file", 3000)))
			g.send(anthropicPath, anthropicBody(k.msgs...), sessionHeader, k.id)
			k.msgs = append(k.msgs, assistant(long("the answer", 3000)))
		}
		k.msgs = append(k.msgs, user("q"))
		g.setAnswer(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(400); io.WriteString(w, refusal) })
		g.send(anthropicPath, anthropicBody(k.msgs...), sessionHeader, k.id)
		g.setAnswer(nil)
		before := len(g.whole[len(g.whole)-1])
		g.send(anthropicPath, anthropicBody(k.msgs...), sessionHeader, k.id)
		if folded := len(g.whole[len(g.whole)-1]) < before; folded != overflow {
			t.Errorf("%s: the next request is shorter: %v", refusal, folded)
		}
	}
}

// However many sessions there are and however long they go on, what is held in
// memory stays under its cap.
func TestP48_P73_P76_P79_MemoryIsCapped(t *testing.T) {
	const limit = 32 << 10
	g := newRig(t, config.On)
	g.options = func(o *chain.Options) { o.Memory = limit }
	g.restart()
	var talks []*convo
	for i := range 30 {
		k := g.convo(fmt.Sprint("m", i))
		k.say()
		talks = append(talks, k)
	}
	for range 3 {
		slices.Reverse(talks)
		for _, k := range talks {
			k.say()
			if n := g.chain.Status().MemoryBytes; n > limit {
				t.Fatalf("%d bytes cached, the cap is %d", n, limit)
			}
		}
	}
}

// At rest the caches shrink, and whoever comes back is answered as before: from
// the ledger. The session used last stays in memory.
func TestRest(t *testing.T) {
	const limit = 64 << 10
	g := newRig(t, config.On)
	g.options = func(o *chain.Options) { o.Memory = limit }
	g.restart()
	var talks []*convo
	for i := range 10 {
		k := g.convo(fmt.Sprint("rest", i))
		for range 3 {
			k.say()
		}
		talks = append(talks, k)
	}
	before := g.chain.Status().MemoryBytes
	g.chain.Rest()
	if n := g.chain.Status().MemoryBytes; before <= limit/4 || n > limit/4 || n == 0 {
		t.Errorf("%d bytes cached before, %d at rest", before, n)
	}
	g.chain.Rest()
	for _, k := range talks {
		k.say()
	}
	if len(g.degraded) > 0 {
		t.Errorf("%+v", g.degraded)
	}
}

// What a call used is the upstream's word, once per call, whatever was sent
// again or by whom.
func TestP65_P67_UsageIsTheUpstreamsWord(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("used")
	k.say()
	k.send() // a retry is a call of its own
	want := usage.Usage{Input: 10, Cached: 5, Output: 2, Source: usage.Exact}
	if len(g.turns) != 2 || g.turns[0].Usage != want || g.turns[1].Usage != want {
		t.Errorf("%+v", g.turns)
	}
}

// A request that was taken always leaves, also where the ledger hangs behind.
func TestP23_TakenRequestsLeave(t *testing.T) {
	g, f := faultyRig(t, config.On)
	k := g.convo("slow")
	k.say()
	f.spoil(func(c *session.Commit, real func() error) error {
		err := real()
		c.Waited = -2 * session.SlowCommitMs * time.Millisecond // time at the lock, made up
		return err
	})
	k.say()
	f.failing(session.ErrFull, session.ErrFull)
	k.say()
	f.failing()
	f.spoil(nil)
	if n := len(g.whole); n != 3 {
		t.Errorf("%d requests reached the upstream, want 3", n)
	}
}

// A busy or odd refusal after the first round is not the client's affair: it is
// tried again, and the reply goes on.
func TestP24_C13_LaterRoundsAreTriedAgain(t *testing.T) {
	g := newRig(t, config.On)
	g.folding(true)
	k := g.grown("busy", false, true)
	g.play(true, false, said{calls: []use{status("own_1")}}, said{status: 429, refusal: "{}"}, said{text: "Done."})
	if rounds := k.ask(); len(rounds) != 3 || !strings.Contains(k.replied, "Done.") || k.status != 200 {
		t.Errorf("%d rounds, the client got %d %s", len(rounds), k.status, k.replied)
	}
}

// It starts again and again on what it left.
func TestP64_ItStartsAgain(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("again")
	for range 4 {
		k.say()
		g.restart()
	}
	g.expect("after four restarts", k.say(), session.PathSnapshot, session.NoGate)
	g.verifyAll()
}

// The branches of one conversation stay one conversation: each knows where it
// came from.
func TestC58_BranchesBelongTogether(t *testing.T) {
	g := newRig(t, config.On)
	k := g.convo("forks")
	for range 3 {
		k.say()
	}
	g.send(anthropicPath, bodyOf(false, `"max_tokens":4096,`, k.msgs...), sessionHeader, k.id)
	heads, err := g.db.Heads(t.Context(), session.World{Signal: "x-claude-code-session-id", SessRaw: k.id, Lane: session.MainLane})
	if err != nil || len(heads) != 2 || heads[1].Parent != heads[0].Ledger && heads[0].Parent != heads[1].Ledger {
		t.Errorf("%+v, %v", heads, err)
	}
}

// Requests of a wire that is not read pass as they came, and leave no session
// behind: not one for each, not one under a guessed name.
func TestP14_C20_UnreadWiresPass(t *testing.T) {
	g := newRig(t, config.On)
	g.setAnswer(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") })
	for i := range 3 {
		body := fmt.Sprintf(`{"model":"m" , "prompt_cache_key":"c1","input":[{"role":"user","content":"%d"},{"future":1.0}]}`, i)
		if _, _, err := g.do(g.request(t.Context(), "POST", "/v1/responses", []byte(body))); err != nil || string(g.whole[i]) != body {
			t.Errorf("sent %s, %v", g.whole[i], err)
		}
	}
	if n := counts(t, g.path); n["session"] != 0 {
		t.Errorf("the ledger has %v", n)
	}
}
