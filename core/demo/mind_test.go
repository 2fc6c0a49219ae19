package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// sent is a request of a scripted session in its n-th turn: the prompt, what
// stands before the last exchange, and what is said beside its results.
func sent(t *testing.T, script Script, turn int, before []object, beside ...string) request {
	t.Helper()
	ids := &idSource{seed: []byte("test")}
	messages := append([]object{text("user", script[0].Opens)}, before...)
	if script[turn].Opens != "" {
		messages = append(messages, text("user", script[turn].Opens))
	} else {
		last := script.at(turn - 1)
		messages = append(messages, object{{"role", "assistant"}, {"content", anthropicWire{}.blocks(request{}, last, ids)}})
		messages = append(messages, results(messages[len(messages)-1]))
	}
	for _, say := range beside {
		messages = append(messages, text("user", say))
	}
	return readRequest(t, messages)
}

func text(role, say string) object {
	return object{{"role", role}, {"content", []object{{{"type", "text"}, {"text", say}}}}}
}

// results answers all calls of an assistant message.
func results(assistant object) object {
	var out []object
	for _, b := range assistant[1].value.([]object) {
		if b[0].value == partCall {
			out = append(out, object{{"type", partResult}, {"tool_use_id", b[1].value}, {"content", "found in fold b7"}})
		}
	}
	return object{{"role", "user"}, {"content", out}}
}

func readRequest(t *testing.T, messages []object) request {
	t.Helper()
	var offered []object
	for _, name := range []string{"Bash", "hf_compress", "hf_decompress", "hf_search", "hf_status"} {
		offered = append(offered, object{{"name", name}, {"input_schema", object{{"type", "object"}}}})
	}
	q, err := anthropicWire{}.read(mustEncode(object{{"model", "m"}, {"tools", offered}, {"messages", messages}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := (anthropicWire{}).rules().judge(q.messages); err != nil {
		t.Fatal(err)
	}
	return q
}

// decide is what the model does with a request.
func decide(script Script, q request) (Turn, place) {
	at := script.find(&q)
	mind := script.mind(&q, at)
	if own, ok := mind.next(); ok {
		return own, at
	}
	return mind.glance(script.at(at.turn)), at
}

// TestPlaceWithoutHistory: the model finds its place when all but the last
// exchange is gone.
func TestPlaceWithoutHistory(t *testing.T) {
	script := ScriptOf(Session(DefaultTurns))
	for turn := 1; turn < DefaultTurns; turn++ {
		q := sent(t, script, turn, nil)
		if got := script.find(&q); got.turn != turn || got.made != nil {
			t.Fatalf("turn %d is taken for %+v", turn, got)
		}
	}
}

const aReminder = "[reminder] Please use hf_compress. What may go:\nm00002–m00040 · 41,000 tokens · Read almanac.go\n- m00044-m00051 · 5,000 tokens · m00099 was odd"

// TestFoldsWhenReminded: the refs are the reminder's, the summary has the
// finished work and what is in hand, and it happens once a turn.
func TestFoldsWhenReminded(t *testing.T) {
	script := ScriptOf(Session(DefaultTurns))
	turn := 3*beatsPerTask + 4
	got, _ := decide(script, sent(t, script, turn, nil, aReminder))
	args := foldArgs(t, got)
	if args.Start != "m00002" || args.End != "m00051" {
		t.Errorf("folds %+v", args)
	}
	for _, n := range []int{0, 1, 2} {
		if !strings.Contains(args.Summary, newTask(n).fact()) {
			t.Errorf("task %d is not in %s", n, args.Summary)
		}
	}
	if strings.Contains(args.Summary, newTask(3).fact()) || !strings.Contains(args.Summary, "In hand: chart: ") {
		t.Errorf("what is in hand: %s", args.Summary)
	}
	if got, _ := decide(script, sent(t, script, turn, nil)); len(got.Calls) != 1 || got.Calls[0].Tool != "Bash" {
		t.Errorf("without a reminder it does %+v", got.Calls)
	}
	own := object{{"role", "assistant"}, {"content", anthropicWire{}.blocks(request{}, got, &idSource{seed: []byte("own")})}}
	q := sent(t, script, turn, nil, aReminder)
	messages := append(raws(t, q), own, results(own))
	again, at := decide(script, readRequest(t, messages))
	if at.turn != turn || len(at.made) != 1 || len(again.Calls) != 1 || again.Calls[0].Tool != "Bash" {
		t.Errorf("after the fold, at %+v, it does %+v", at, again.Calls)
	}
}

type folding struct {
	Start   string `json:"startId"`
	End     string `json:"endId"`
	Summary string `json:"summary"`
	Topic   string `json:"topic"`
}

func foldArgs(t *testing.T, got Turn) folding {
	t.Helper()
	if len(got.Calls) != 1 || got.Calls[0].Tool != "hf_compress" {
		t.Fatalf("it does %+v", got.Calls)
	}
	var in struct{ Content []folding }
	if err := json.Unmarshal(got.Calls[0].Args, &in); err != nil || len(in.Content) != 1 {
		t.Fatalf("%s: %v", got.Calls[0].Args, err)
	}
	return in.Content[0]
}

// raws are the messages of a request again, as objects.
func raws(t *testing.T, q request) (out []object) {
	t.Helper()
	for _, h := range q.messages {
		var blocks []object
		for _, p := range h.parts {
			switch p.kind {
			case partText:
				blocks = append(blocks, object{{"type", partText}, {"text", p.text}})
			case partCall:
				blocks = append(blocks, object{{"type", partCall}, {"id", p.id}, {"name", p.name}, {"input", json.RawMessage(p.text)}})
			case partResult:
				blocks = append(blocks, object{{"type", partResult}, {"tool_use_id", p.id}, {"content", p.text}})
			}
		}
		out = append(out, object{{"role", h.role}, {"content", blocks}})
	}
	return out
}

// TestNests: the third fold takes the two before it in, with their facts; a
// nest stays out of the next one.
func TestNests(t *testing.T) {
	script := ScriptOf(Session(DefaultTurns))
	turn := 6*beatsPerTask + 4
	fold := func(ref, topic string, tasks ...int) object {
		var facts []string
		for _, n := range tasks {
			facts = append(facts, "- "+newTask(n).fact())
		}
		return text("user", fmt.Sprintf("[fold %s · x]\nTopic: %s\n%s\n[end of %s]", ref, topic, strings.Join(facts, "\n"), ref))
	}
	got, _ := decide(script, sent(t, script, turn, []object{fold("b1", "two", 0, 1), fold("b2", "one", 2)}, aReminder))
	args := foldArgs(t, got)
	if args.Start != "b1" || args.End != "m00051" || args.Topic != nestTopic+"pilot" && args.Topic != nestTopic+"buoy" {
		t.Errorf("nests %s to %s as %q", args.Start, args.End, args.Topic)
	}
	for n := range 6 {
		if !strings.Contains(args.Summary, newTask(n).fact()) {
			t.Errorf("task %d is lost", n)
		}
	}
	got, _ = decide(script, sent(t, script, turn, []object{fold("b3", args.Topic, 0, 1, 2), fold("b4", "one", 3)}, aReminder))
	if args = foldArgs(t, got); args.Start != "m00002" || strings.Contains(args.Summary, newTask(3).fact()) || !strings.Contains(args.Summary, newTask(4).fact()) {
		t.Errorf("beside a nest it folds %+v", args)
	}
}

// TestFoldsFolds: a reminder that names folds gets all their facts into one.
func TestFoldsFolds(t *testing.T) {
	script := ScriptOf(Session(DefaultTurns))
	old := text("user", "[fold b3 · x]\nTopic: "+nestTopic+"gauge\n- "+newTask(0).fact()+"\n[end of b3]")
	got, _ := decide(script, sent(t, script, 2*beatsPerTask+4, []object{old}, "Fold with hf_compress:\nb3–m00051 · 5,000 tokens"))
	if args := foldArgs(t, got); args.Start != "b3" || !strings.Contains(args.Summary, newTask(0).fact()) || args.Topic != nestTopic+"gauge" {
		t.Errorf("folds %+v", args)
	}
}

// TestForgotten: what is settled counts as known in the model's own words or
// in a summary, and not otherwise.
func TestForgotten(t *testing.T) {
	beats := Session(3*beatsPerTask + 1)
	body := func(texts ...string) []byte {
		var messages []object
		for _, say := range texts {
			messages = append(messages, text("user", say))
		}
		return mustEncode(object{{"messages", messages}})
	}
	own, summary := beats[beatsPerTask-1].Turn.Text, "- "+newTask(1).fact()+"\n"
	if got := Forgotten(body(own, summary), beats); len(got) != 1 || got[0] != newTask(2).fact() {
		t.Errorf("forgotten %q", got)
	}
	if got := Forgotten(body(own, summary, newTask(2).fact()), beats); got != nil {
		t.Errorf("forgotten %q", got)
	}
}

// TestLooksUp: what is folded is searched for and opened, in that order, and
// the turn is played after it; what is in view needs neither.
func TestLooksUp(t *testing.T) {
	script := ScriptOf(Session(DefaultTurns))
	turn := 4 * beatsPerTask
	if script[turn].Wants == "" {
		t.Fatal("turn has nothing to look up")
	}
	plain, _ := decide(script, sent(t, script, turn, []object{text("assistant", "Done.")}))
	if len(plain.Calls) != 2 || ownTool(plain.Calls[0].Tool) {
		t.Errorf("with everything in view it does %+v", plain.Calls)
	}
	messages := raws(t, sent(t, script, turn, []object{text("user", "[fold b7 · x]\n…"), text("assistant", "Done.")}))
	for i, want := range []string{"hf_search", "hf_decompress", "Read"} {
		got, _ := decide(script, readRequest(t, messages))
		if got.Calls[0].Tool != want || want == "hf_decompress" && string(got.Calls[0].Args) != `{"blockId":"b7"}` {
			t.Fatalf("step %d is %s %s, want %s", i, got.Calls[0].Tool, got.Calls[0].Args, want)
		}
		said := object{{"role", "assistant"}, {"content", anthropicWire{}.blocks(request{}, got, &idSource{seed: []byte(want)})}}
		messages = append(messages, said, results(said))
	}
}

// TestGlances: a look at the folds stands beside the client's own calls.
func TestGlances(t *testing.T) {
	script := ScriptOf(Session(DefaultTurns))
	got, _ := decide(script, sent(t, script, 4*beatsPerTask+1, []object{text("user", "[fold b7 · x]\n…")}))
	if len(got.Calls) != 2 || got.Calls[0].Tool != "hf_status" || got.Calls[1].Tool != "Read" {
		t.Errorf("it does %+v", got.Calls)
	}
}

// TestMeter: what is the same as before is read from cache until it lapses.
func TestMeter(t *testing.T) {
	prompt := func(last string, sizes ...int64) (out []piece) {
		for i, n := range sizes {
			out = append(out, piece{sum: sumOf(fmt.Appendf(nil, "%d", i)), tokens: n})
		}
		return append(out, piece{sum: sumOf([]byte(last)), tokens: 100, ends: true}, piece{sum: 7, tokens: 5})
	}
	var m, auto meter
	for i, step := range []struct {
		prompt                []piece
		at                    time.Duration
		cached, written, left int64
	}{
		{prompt("a", 2000), 0, 0, 2100, 5},
		{prompt("b", 2000, 300), time.Minute, 2000, 400, 5},
		{prompt("c", 2000, 300), 5 * time.Minute, 2300, 100, 5},
		{prompt("c", 2000, 300), 11 * time.Minute, 0, 2400, 5},
		{prompt("d", 1000), 12 * time.Minute, 0, 1100, 5},
		{prompt("e", 1000), 13 * time.Minute, 0, 1100, 5}, // too short to be cached
	} {
		c := m.request(step.prompt, step.at, anthropicLifetime, true)
		if c.Cached != step.cached || c.CacheWrite != step.written || c.Input != step.left {
			t.Errorf("step %d: %+v, want %+v", i, c, step)
		}
		c = auto.request(step.prompt, step.at, anthropicLifetime, false)
		if c.CacheWrite != 0 || c.Cached != step.cached || c.Input != step.written+step.left {
			t.Errorf("step %d without markers: %+v", i, c)
		}
	}
}
