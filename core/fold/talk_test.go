package fold

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/usage"
)

// talk is a conversation under test: the messages, their figures, and the
// kernel's memory as a ledger would keep it.
type talk struct {
	t       testing.TB
	elems   []Element
	msgs    map[int64]*chat.Message
	bodies  map[content.ID]Body
	st      State
	rh      Rhythm
	lim     Limits
	nextN   int64
	nextRef int64
	calls   int
}

func newTalk(t testing.TB) *talk {
	return &talk{t: t, msgs: map[int64]*chat.Message{}, bodies: map[content.ID]Body{}, st: Arm(NewState(), true, nil), nextN: 1, nextRef: 1}
}

func message(role chat.Role, parts ...chat.Part) *chat.Message {
	m := &chat.Message{Role: role, Parts: parts}
	var raw strings.Builder
	for i := range m.Parts {
		m.Parts[i].Role = role
		raw.WriteString(m.Parts[i].Text)
	}
	m.Raw = []byte(raw.String())
	m.Stripped = m.Raw
	m.Seal()
	return m
}

// element numbers a message without adding it to the list.
func (k *talk) element(m *chat.Message) Element {
	e := Describe(m)
	e.N = k.nextN
	k.nextN++
	first := m.Role == chat.User && firstUser(k.elems) < 0
	if !e.system() && !first {
		e.Ref = k.nextRef
		k.nextRef++
	}
	k.msgs[e.N] = m
	return e
}

func (k *talk) add(m *chat.Message) *talk {
	k.elems = append(k.elems, k.element(m))
	return k
}

// words is a text of about n characters that begins with s.
func words(s string, n int) string {
	return s + strings.Repeat(" lorem", max(0, n-len(s))/6)
}

func part(kind chat.Kind, text string) chat.Part { return chat.Part{Kind: kind, Text: text} }

func (k *talk) system(s string) *talk { return k.add(message(chat.System, part(chat.Text, s))) }
func (k *talk) user(s string) *talk   { return k.add(message(chat.User, part(chat.Text, s))) }
func (k *talk) says(s string) *talk   { return k.add(message(chat.Assistant, part(chat.Text, s))) }
func (k *talk) thinks(s string) *talk { return k.add(message(chat.Assistant, part(chat.Reasoning, s))) }

func (k *talk) call(tool, args string) *talk {
	k.calls++
	p := chat.Part{Kind: chat.ToolCall, Tool: tool, CallID: fmt.Sprintf("c%d", k.calls), Text: args}
	return k.add(message(chat.Assistant, p))
}

// result answers the latest call.
func (k *talk) result(s string) *talk {
	return k.add(message(chat.Tool, chat.Part{Kind: chat.ToolResult, CallID: fmt.Sprintf("c%d", k.calls), Text: s}))
}

// rounds adds n tool rounds with results of so many characters each.
func (k *talk) rounds(n, chars int) *talk {
	for i := range n {
		k.call("read", fmt.Sprintf(`{"path":"file%d.go"}`, i)).result(words(fmt.Sprintf("package p%d", i), chars))
	}
	return k
}

// started is a conversation with a system text, a first request and n rounds
// of 2,000 characters, ended by a request that keeps the rounds out of the tail.
func started(t testing.TB, n int) *talk {
	k := newTalk(t).system("You are helpful.").user("Please fix the bug in the parser.").rounds(n, 2_000)
	return k.tail()
}

// tail adds enough recent talk that nothing before it is protected, and ends as
// a request does.
func (k *talk) tail() *talk {
	k.user("And now the tests.")
	for range recentElements - 2 {
		k.says(words("Working on it.", 4_200))
	}
	return k.call("bash", `{"command":"go test ./..."}`).result(words("ok", 8_400))
}

func (k *talk) session() Session {
	return Session{Elements: k.elems, NextRef: k.nextRef, State: k.st, Rhythm: k.rh, Limits: k.lim}
}

// run carries a call out the way the chain does: ask what it needs, hand in
// that and no more, keep what it led to.
func (k *talk) run(name, args string) Outcome {
	s, use := k.session(), ToolUse{Name: name, Args: []byte(args)}
	need := s.Needs(use)
	t := Texts{Elements: map[int64]*chat.Message{}, Bodies: map[content.ID]Body{}}
	for _, n := range need.Elements {
		t.Elements[n] = k.msgs[n]
	}
	for _, id := range need.Bodies {
		t.Bodies[id] = k.bodies[id]
	}
	if need.Documents {
		t.Documents = k.documents()
	}
	out := s.Run(use, t)
	k.st, k.rh = out.State, out.Rhythm
	k.store(out.Events)
	return out
}

// store keeps the bodies of new blocks.
func (k *talk) store(events []Event) {
	for _, e := range events {
		if e.Body != nil {
			_, id := e.Body.Text()
			k.bodies[id] = *e.Body
		}
	}
}

func (k *talk) documents() (docs []Doc) {
	for i := range k.elems {
		e := &k.elems[i]
		var text []string
		for _, p := range k.msgs[e.N].Parts {
			text = append(text, p.Text)
		}
		id := ""
		if e.Ref != 0 {
			id = e.ref()
		}
		docs = append(docs, Doc{ID: id, Role: e.voice(), Text: strings.Join(text, "\n")})
	}
	for i := range k.st.Blocks {
		b := k.bodies[k.st.Blocks[i].Body]
		docs = append(docs, Doc{ID: blockRef(k.st.Blocks[i].ID), Role: "block", Text: b.Topic + "\n" + b.Summary})
	}
	return docs
}

// fold folds one range and fails the test if it cannot.
func (k *talk) fold(from, to string) Outcome {
	k.t.Helper()
	out := k.run(ToolCompress, ranges(from, to))
	if out.Failed {
		k.t.Fatalf("%s–%s was not folded:\n%s", from, to, out.Result)
	}
	return out
}

// turn is the kernel's part of one request.
func (k *talk) turn(u usage.Usage) ([]Item, []Event, *Nudge) {
	view, st, rh, events, nudge := Rewrite(k.elems, k.st, k.rh, k.lim, u)
	k.st, k.rh = st, rh
	k.store(events)
	return view, events, nudge
}

// ranges are the arguments of hf_compress for pairs of refs.
func ranges(refs ...string) string {
	var list []string
	for i := 0; i+1 < len(refs); i += 2 {
		list = append(list, fmt.Sprintf(`{"startId":%q,"endId":%q,"summary":%q,"topic":"part %d"}`, refs[i], refs[i+1], summary, i/2+1))
	}
	return `{"content":[` + strings.Join(list, ",") + `]}`
}

const summary = "The parser was read file by file; the bug is an off-by-one in lexer.go line 41, still to be fixed."

// exact is a report of n tokens read.
func exact(n usage.Tokens) usage.Usage {
	return usage.Usage{Input: 100, Cached: n - 100, Output: 50, Source: usage.Exact}
}

// priced are the terms of a model whose cached read is a tenth of its input.
func priced(turns float64) usage.Terms {
	return usage.Terms{Price: usage.Price{Input: 3, Cached: 0.3, Write: 3.75, Output: 15}, Priced: true, Turns: turns}
}

// shownNumbers are the elements of a view.
func shownNumbers(view []Item) (ns []int64) {
	for _, v := range view {
		if v.Block == 0 {
			ns = append(ns, v.N)
		}
	}
	return ns
}

func carriers(view []Item) (ids []int64) {
	for _, v := range view {
		if v.Block != 0 {
			ids = append(ids, v.Block)
		}
	}
	return ids
}

// open are the calls of a list of elements without a result there, and the
// results without a call.
func (k *talk) open(ns []int64) map[string]bool {
	calls, results := map[string]bool{}, map[string]bool{}
	for _, n := range ns {
		for _, p := range k.msgs[n].Parts {
			switch p.Kind {
			case chat.ToolCall:
				calls[p.CallID] = true
			case chat.ToolResult:
				results[p.CallID] = true
			}
		}
	}
	out := map[string]bool{}
	for id := range calls {
		if !results[id] {
			out[id] = true
		}
	}
	for id := range results {
		if !calls[id] {
			out[id] = true
		}
	}
	return out
}

func (k *talk) numbers() (ns []int64) {
	for i := range k.elems {
		ns = append(ns, k.elems[i].N)
	}
	return ns
}

// seeded is a random source with its seed in the log.
func seeded(t *testing.T, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func has(ns []int64, n int64) bool { return slices.Contains(ns, n) }
