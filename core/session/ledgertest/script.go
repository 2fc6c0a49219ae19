package ledgertest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
)

// Script plans the commits of one conversation with the real planner, one turn
// after the other, and keeps the state an uninterrupted run would have. Two
// scripts of one name plan the same bytes.
type Script struct {
	// State is the branch after the last turn that was settled.
	State *session.State
	// Msgs is the whole conversation so far.
	Msgs []*chat.Message
	// Rows says whether snapshot rows are planned.
	Rows bool
	// Returning are rewound elements the next plan brings back, by index.
	Returning map[int]session.Returned
	// Kernel acts on the next plan before it is committed.
	Kernel func(*session.Plan)

	now    int64
	said   int
	seed   uint64
	rnd    *rand.Rand // made anew for each message, so that clones say the same
	fields []session.FieldRef
	known  map[content.ID][]byte
}

// NewScript starts a conversation of a world called name.
func NewScript(name string) *Script {
	k := fold.NewState()
	b, kernel := k.Seal()
	sum := content.Of([]byte(name))
	return &Script{Rows: true, now: 1_700_000_000_000, seed: binary.LittleEndian.Uint64(sum[:]),
		known: map[content.ID][]byte{},
		State: &session.State{Kernel: k, Repeats: map[chat.CanonID]int32{}, Head: session.Head{
			Ledger: "l_" + name, World: session.World{Signal: "x-claude-code-session-id", SessRaw: "raw-" + name,
				Lane: session.MainLane},
			Mode: session.Degraded, Structure: b, Sum: kernel, Bucket: 4711, Member: true, NextRow: 1, NextElem: 1,
			NextRef: 1, NextBlock: 1}}}
}

// Clone returns a script that goes on by itself from the same state.
func (s *Script) Clone() *Script {
	c, st := *s, *s.State
	st.Repeats, st.Meta, c.known = maps.Clone(st.Repeats), maps.Clone(st.Meta), maps.Clone(s.known)
	c.State, c.Msgs = &st, slices.Clone(s.Msgs)
	return &c
}

// Bytes returns what a hash planned so far names.
func (s *Script) Bytes(id content.ID) []byte { return s.known[id] }

// Hashes are all hashes planned so far.
func (s *Script) Hashes() (ids []content.ID) {
	for id := range s.known {
		ids = append(ids, id)
	}
	return ids
}

// Turn plans the next turn: a user and an assistant element more, the cache
// marker moved to the end. The plan counts as carried out.
func (s *Script) Turn(id int64) *session.Commit {
	s.say(chat.Assistant, 2)
	s.say(chat.User, 1)
	return s.Plan(id)
}

// Retry plans the same list again.
func (s *Script) Retry(id int64) *session.Commit { return s.Plan(id) }

// Rewind drops the last n messages and says something else.
func (s *Script) Rewind(id int64, n int) *session.Commit {
	s.Msgs = s.Msgs[:len(s.Msgs)-n]
	s.say(chat.User, 1)
	return s.Plan(id)
}

// Replace edits message i in place.
func (s *Script) Replace(id int64, i int) *session.Commit {
	s.Msgs = append([]*chat.Message(nil), s.Msgs...)
	keep := s.Msgs
	s.Msgs = nil
	s.say(keep[i].Role, len(keep[i].Parts))
	keep[i] = s.Msgs[0]
	s.Msgs = keep
	return s.Plan(id)
}

// Prune removes message i, as a client that saves room does.
func (s *Script) Prune(id int64, i int) *session.Commit {
	s.Msgs = append(append([]*chat.Message(nil), s.Msgs[:i]...), s.Msgs[i+1:]...)
	return s.Plan(id)
}

// say appends one message with the given number of parts.
func (s *Script) say(role chat.Role, parts int) {
	s.next()
	m := &chat.Message{Role: role}
	raw := fmt.Sprintf(`{"role":%q,"content":[`, role)
	for i := range parts {
		text := fmt.Sprintf("%s %d.%d %s", role, s.said, i, s.words(40+s.rnd.IntN(120)))
		if i > 0 {
			raw += ","
		}
		raw += fmt.Sprintf(`{"type":"text","text":%q}`, text)
		m.Parts = append(m.Parts, chat.Part{Kind: chat.Text, Role: role, Text: text})
	}
	m.Stripped = []byte(raw + "]}")
	m.Raw = m.Stripped
	m.Seal()
	s.Msgs = append(s.Msgs, m)
}

// Attach appends a message with two base64 payloads.
func (s *Script) Attach(first, second string) {
	s.next()
	m := &chat.Message{Role: chat.User}
	head := fmt.Sprintf(`{"role":"user","n":%d,"content":[{"data":"`, s.said)
	raw := head + first + `"},{"data":"` + second
	m.Parts = []chat.Part{{Kind: chat.Media, Role: chat.User, Text: raw}}
	m.Media = []chat.Span{{Start: len(head), End: len(head) + len(first)}, {Start: len(raw) - len(second), End: len(raw)}}
	m.RawMedia = m.Media
	m.Stripped = []byte(raw + `"}]}`)
	m.Seal()
	s.Msgs = append(s.Msgs, m)
}

func (s *Script) next() {
	s.said++
	s.rnd = rand.New(rand.NewPCG(s.seed, uint64(s.said)))
}

func (s *Script) words(n int) string {
	words := [...]string{"read", "file", "error", "test", "func", "return", "value", "ledger", "byte", "turn",
		"commit", "prefix", "model", "tool"}
	out := make([]byte, 0, 7*n)
	for range n {
		out = append(append(out, words[s.rnd.IntN(len(words))]...), ' ')
		if s.rnd.IntN(4) == 0 {
			out = fmt.Appendf(out, "%x ", s.rnd.Uint32())
		}
	}
	return string(out)
}

// mark gives the last message a spelling of its own, as moving cache markers
// do, and takes it from the one that had it.
func (s *Script) mark() []content.ID {
	raws := make([]content.ID, len(s.Msgs))
	for i := range s.Msgs {
		m := *s.Msgs[i] // clones share the messages
		s.Msgs[i] = &m
		m.Raw = m.Stripped
		if i == len(s.Msgs)-1 {
			m.Raw = append(append([]byte(nil), m.Stripped[:len(m.Stripped)-1]...), `,"cache_control":{"type":"ephemeral"}}`...)
		}
		raws[i] = content.Of(m.Raw)
		s.known[raws[i]] = m.Raw
		s.known[content.Of(m.Stripped)] = m.Stripped
	}
	return raws
}

// Plan plans a turn whose inbound list is Msgs.
func (s *Script) Plan(id int64) *session.Commit {
	s.now += 1000
	raws := s.mark()
	keys := make([]content.ID, len(s.Msgs))
	for i, m := range s.Msgs {
		keys[i] = m.Key
	}
	fields := s.frame()
	create := s.State.Head.ListTurn == 0
	al := session.Align(keysOf(s.State.List), keys)
	p := session.MakePlan(s.State, create, &al, &session.Inbound{Now: s.now, Keys: keys, Raws: raws, Messages: s.Msgs,
		PrevFields: s.fields, Returning: s.Returning,
		Rows: s.Rows, FrameSig: keys[0][:8], Model: "model-1", Wire: "anthropic", Tools: true, Window: 200_000,
		Title: "a script", Route: session.RouteShadow,
		Turn: session.Turn{ID: id, At: s.now, Home: session.HomeShadow, Model: "model-1", Route: "anthropic",
			WireIn: "anthropic", WireOut: "anthropic",
			Path: session.PathFull, Stream: true, BytesIn: 1000, BytesOut: 1000, InHash: content.Of(fmt.Append(nil, "in",
				id)), OutHash: content.Of(fmt.Append(nil, "out", id)),
			Skeleton: []byte(`{"model":"model-1","max_tokens":32000,"stream":true,"metadata":{"user_id":"u"},"messages":[` + s.words(20) + `],"temperature":1}`), AllFields: fields}})
	if s.Kernel != nil {
		s.Kernel(p)
		s.learn(p)
	}
	p.Commit.Blobs = append(p.Commit.Blobs, s.frameBlobs(fields)...)
	s.fields, s.Returning, s.Kernel = fields, nil, nil
	s.State = p.Settle()
	return &p.Commit
}

func keysOf(list []session.Elem) []content.ID {
	keys := make([]content.ID, len(list))
	for i := range list {
		keys[i] = list[i].Key
	}
	return keys
}

// frame is a system prompt that changes every 50 messages and tools that never
// do.
func (s *Script) frame() []session.FieldRef {
	var fs []session.FieldRef
	for _, v := range [...][2]string{{"system", fmt.Sprintf("[system prompt %d]", s.said/50)}, {"tools", "[tools]"}} {
		id := content.Of([]byte(v[1]))
		s.known[id] = []byte(v[1])
		fs = append(fs, session.FieldRef{Name: v[0], ID: id, Hash: id.String()})
	}
	return fs
}

func (s *Script) frameBlobs(fs []session.FieldRef) (bs []session.Blob) {
	for _, f := range fs {
		bs = append(bs, session.Blob{ID: f.ID, Raw: s.known[f.ID]})
	}
	return bs
}
