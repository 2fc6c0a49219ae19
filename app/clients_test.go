//go:build clients

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/core/demo"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/wire/wiretest"
)

// modelCalls is how many requests a client makes in a scenario: two rounds and
// an answer, then one round and an answer.
const modelCalls = 5

// TestClients runs every real client straight at the scripted model, and then
// through Holdfast in both modes that record. What the person sees, what the
// model receives and what the client receives must be the same, and the ledger
// must give every byte of it back.
func TestClients(t *testing.T) {
	model := demo.NewModel(demo.Options{})
	server := httptest.NewServer(model)
	defer server.Close()
	direct := map[string]string{}
	for _, a := range realAgents() {
		t.Run("direct/"+a.name, func(t *testing.T) {
			tp := newTap(t, server.Listener.Addr().String(), nil)
			start := time.Now()
			direct[a.name] = a.scenario(t, demo.BaseURL(tp.url, a.name))
			report(t, start, tp.seen(), direct[a.name])
			seen, recordings := inOrder(tp.seen(), model.Recordings(a.name))
			samePairs(t, seen, recordings, stripped)
		})
	}
	program := buildProgram(t)
	for _, mode := range []string{"shadow", "on"} {
		for _, a := range realAgents() {
			t.Run(mode+"/"+a.name, func(t *testing.T) {
				through(t, a, mode, program, model, server.URL, direct[a.name], stripped)
			})
		}
	}
	for _, a := range realAgents() {
		if a.name == "claude-code" || a.name == "pi-chat" {
			t.Run("not folding/"+a.name, func(t *testing.T) {
				asItIs := func(b []byte) []byte { return b }
				through(t, a, "on", program, model, server.URL, direct[a.name], asItIs, "[fold]\nenabled = false\n")
			})
		}
	}
}

// through runs one client through a Holdfast of its own. less takes from a body
// what is added to it.
func through(t *testing.T, a agent, mode, program string, model *demo.Model, upstream, direct string, less func([]byte) []byte, settings ...string) {
	h := startHoldfast(t, program, mode, settings...)
	tp := newTap(t, h.addr, hopHeaders())
	label := a.name + "-" + mode + fmt.Sprint(len(settings))
	start := time.Now()
	shown := a.scenario(t, tp.url+"/via/"+demo.BaseURL(upstream, label))
	report(t, start, tp.seen(), shown)
	if shown != direct {
		t.Errorf("shows\n%s\ndirect it shows\n%s", shown, direct)
	}
	seen, recordings := inOrder(tp.seen(), model.Recordings(label))
	samePairs(t, seen, recordings, less)
	sameHeaders(t, seen, recordings)
	sessions := h.sessions(t)
	if len(sessions) != 1 {
		t.Fatalf("%d sessions %v, want 1", len(sessions), sessions)
	}
	turns := h.turns(t, sessions[0], modelCalls)
	paths(t, a, mode, turns, h.slow(t, turns))
	replays(t, h, turns, recordings)
}

// hopHeaders are meant for the next hop only, or for nobody: none may leave.
func hopHeaders() http.Header {
	return http.Header{
		"Connection":       {"x-tap-hop"},
		"X-Tap-Hop":        {"1"},
		"Proxy-Connection": {"keep-alive"},
		"Te":               {"trailers"},
	}
}

func report(t *testing.T, start time.Time, seen []exchange, shown string) {
	sent, got := 0, 0
	for _, ex := range seen {
		sent += len(ex.body)
		got += len(ex.response)
	}
	t.Logf("%d exchanges, %d bytes sent, %d received, %s\n%s", len(seen), sent, got, time.Since(start).Round(time.Millisecond), shown)
}

// samePairs wants every exchange at the client's end once at the model's end,
// with the same bytes both ways, less what is added.
func samePairs(t *testing.T, seen []exchange, recordings []demo.Recording, less func([]byte) []byte) {
	t.Helper()
	if len(seen) != modelCalls || len(recordings) != modelCalls {
		t.Fatalf("%d exchanges, %d reached the model, want %d", len(seen), len(recordings), modelCalls)
	}
	for i, r := range recordings {
		ex := seen[i]
		switch {
		case ex.method != r.Method || !strings.HasSuffix(ex.uri, pathOf(r)):
			t.Errorf("exchange %d: %s %s arrived as %s %s", i, ex.method, ex.uri, r.Method, pathOf(r))
		case !bytes.Equal(ex.body, less(r.RawBody)):
			t.Errorf("exchange %d: the request body differs, %d bytes sent, %d arrived", i, len(ex.body), len(r.RawBody))
		case ex.status != r.Status || !bytes.Equal(ex.response, r.RawResponse) && !bytes.Equal(ex.response, r.Response):
			t.Errorf("exchange %d: the response differs, %d %d bytes sent, %d %d arrived", i, r.Status, len(r.RawResponse), ex.status, len(ex.response))
		}
	}
}

// inOrder brings both lists into one order, whatever overlapped.
func inOrder(seen []exchange, recordings []demo.Recording) ([]exchange, []demo.Recording) {
	slices.SortFunc(seen, func(a, b exchange) int { return bytes.Compare(a.body, b.body) })
	slices.SortFunc(recordings, func(a, b demo.Recording) int { return bytes.Compare(stripped(a.RawBody), stripped(b.RawBody)) })
	return seen, recordings
}

func pathOf(r demo.Recording) string {
	if r.RawQuery == "" {
		return r.Path
	}
	return r.Path + "?" + r.RawQuery
}

// sameHeaders wants the client's headers at the model, none of those meant for
// the hop or for Holdfast itself, and the model's headers at the client.
func sameHeaders(t *testing.T, seen []exchange, recordings []demo.Recording) {
	t.Helper()
	for i, r := range recordings {
		for name := range r.Header {
			if _, sent := seen[i].header[name]; !sent && name != "X-Holdfast-Hop" && name != "Accept-Encoding" {
				t.Errorf("exchange %d: header %s was added", i, name)
			}
		}
		for name, values := range seen[i].header {
			if name != "Connection" && name != "Accept-Encoding" && name != "Content-Length" && !slices.Equal(values, r.Header[name]) {
				t.Errorf("exchange %d: header %s: %q arrived as %q", i, name, values, r.Header[name])
			}
		}
		for name := range hopHeaders() {
			if _, leaked := r.Header[name]; leaked {
				t.Errorf("exchange %d: header %s leaked", i, name)
			}
		}
		for name, values := range r.ResponseHeader {
			// a reply that may call our tools is decoded on its way
			if name != "Content-Encoding" && name != "Content-Length" && !slices.Equal(values, seen[i].got[name]) {
				t.Errorf("exchange %d: response header %s: %q arrived as %q", i, name, values, seen[i].got[name])
			}
		}
	}
}

// paths wants turns served from the ledger exactly where they can be: in mode
// on, for a client that names its session, once the session is known. Those
// whose commit was slow step down rightly.
func paths(t *testing.T, a agent, mode string, turns []recorded, slow int) {
	t.Helper()
	if len(turns) != modelCalls {
		t.Errorf("%d turns, want %d", len(turns), modelCalls)
	}
	snapshots := 0
	for _, turn := range turns {
		switch turn.Path {
		case "snapshot":
			snapshots++
		case "full":
		default:
			t.Errorf("turn %s: path %q, gate %q", turn.ID, turn.Path, turn.Gate)
		}
	}
	want := 0
	if mode == "on" && a.signed {
		want = max(1, modelCalls-1-slow) // the first sight is always served in full
	}
	if snapshots < want || want == 0 && snapshots > 0 {
		t.Errorf("%d turns on the snapshot path, want %d, %d were slow", snapshots, want, slow)
	}
}

// slow counts the turns that stepped down because a busy disk held up their
// commit. A step down is written after its turn.
func (h *holdfast) slow(t *testing.T, turns []recorded) (n int) {
	t.Helper()
	for _, turn := range turns {
		if turn.Gate != string(session.R3) {
			continue
		}
		cause := h.cause(t, turn.ID)
		t.Logf("turn %s stepped down: %s", turn.ID, cause)
		if cause == session.CauseSlow {
			n++
		}
	}
	return n
}

// cause waits until it is written why a turn stepped down.
func (h *holdfast) cause(t *testing.T, turn json.Number) session.Cause {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var list []struct {
			Turn  json.Number
			Cause session.Cause
		}
		decodeList(t, h.get(t, "/hf/v1/degrades"), &list)
		for _, d := range list {
			if d.Turn == turn {
				return d.Cause
			}
		}
		if time.Now().After(end) {
			t.Fatalf("nothing says why turn %s stepped down: %+v", turn, list)
		}
	}
}

// replays wants every turn's bytes back from the ledger, each exactly once.
func replays(t *testing.T, h *holdfast, turns []recorded, recordings []demo.Recording) {
	t.Helper()
	var requests, clients, responses [][]byte
	for _, r := range recordings {
		requests, clients, responses = append(requests, r.Body), append(clients, stripped(r.Body)), append(responses, r.Response)
	}
	for _, kind := range []struct {
		name string
		want [][]byte
	}{{"inbound", clients}, {"outbound", requests}, {"response", responses}} {
		var got [][]byte
		for _, turn := range turns {
			got = append(got, h.get(t, "/hf/v1/turns/"+turn.ID.String()+"/"+kind.name))
		}
		slices.SortFunc(got, bytes.Compare)
		slices.SortFunc(kind.want, bytes.Compare)
		if !slices.EqualFunc(got, kind.want, bytes.Equal) {
			t.Errorf("%s: the ledger gives back %d turns' bytes that are not the %d that passed", kind.name, len(got), len(kind.want))
		}
	}
}

// stripped is a body less what Holdfast adds to every request that offers
// tools.
func stripped(body []byte) []byte {
	return wiretest.Without(body, fold.Paragraph, fold.ToolsJSON(fold.ShapeAnthropic, ""), fold.ToolsJSON(fold.ShapeChat, ""))
}
