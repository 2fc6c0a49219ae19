package openai

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

var _ wire.Looper = Codec{}

// Loop starts reading the first round of a reply. Only the first choice is
// read.
func (Codec) Loop(stream bool, o wire.LoopOptions) wire.Loop {
	if stream {
		return newStreamLoop(o)
	}
	return &bodyLoop{o: o}
}

// streamLoop is the tool loop on an event stream. Names of calls may come in
// pieces: while one can still become one of ours, everything waits in order.
type streamLoop struct {
	o     wire.LoopOptions
	out   []byte
	given given
	head  head
	cut   *sse.Cutter
	round round
	// rounds counts the rounds before this one.
	rounds int
	// output sums their output tokens.
	output int64
	// torn says that the last bytes given were not a whole event, fresh that
	// none of this round have been given.
	torn, fresh bool
}

// round is what one upstream reply has told so far.
type round struct {
	info    wire.ReplyInfo
	message wire.Growing
	calls   []*call
	// queue waits for a call to be told apart.
	queue []event
	// held says that the round has a call of ours, so its end waits: in finish
	// and usage the data of those chunks.
	held          bool
	finish, usage []byte
	// end holds the last events of a later round until it is closed.
	end    []event
	closed bool
	// size counts the bytes of the events.
	size int
}

// readable bounds what is collected.
func (r *round) readable() bool { return r.size <= sse.MaxReply }

// event is one event of the stream and the calls it has fragments of.
type event struct {
	raw   []byte
	data  []byte
	calls []*call
}

func newStreamLoop(o wire.LoopOptions) *streamLoop {
	l := &streamLoop{o: o}
	l.begin()
	return l
}

func (l *streamLoop) begin() {
	l.round = round{}
	l.cut = sse.NewCutter(l.event)
	l.fresh = true
}

// Feed takes the next bytes of the round.
func (l *streamLoop) Feed(p []byte) []byte {
	l.out = l.out[:0]
	l.cut.Write(p)
	return l.out
}

// Close ends the round.
func (l *streamLoop) Close() ([]byte, wire.Round) {
	l.out = l.out[:0]
	l.cut.Close()
	l.settle()
	l.drain()
	r := &l.round
	r.closed = true
	for _, e := range r.end {
		l.give(e)
	}
	out := wire.Round{Info: r.info, Cut: !r.info.Terminal}
	for _, c := range r.calls {
		switch {
		case c.is != ours:
			out.Client++
		case !out.Cut:
			out.Own = append(out.Own, c.own())
		}
	}
	if r.readable() {
		out.Element = elementOf(r.message, r.calls)
	}
	return l.out, out
}

// Next begins another round.
func (l *streamLoop) Next() {
	l.output += l.round.info.Counts.Output
	l.rounds++
	l.given.between = l.given.Text("content") != ""
	l.begin()
}

// Finish ends a reply whose end was held.
func (l *streamLoop) Finish() []byte {
	l.out = l.out[:0]
	l.note()
	l.send(l.finish())
	if usage := l.round.usage; usage != nil {
		l.send(wire.Apply(usage, l.same(wire.ValueOf(usage).Obj())...))
	}
	l.send([]byte(done))
	return l.out
}

// finish is the chunk with the finish reason.
func (l *streamLoop) finish() []byte {
	client := slices.ContainsFunc(l.round.calls, func(c *call) bool { return c.is == theirs })
	data := l.round.finish
	if data == nil {
		return l.head.chunk([]byte("{}"), string(wire.Quote(finishReason("", client))))
	}
	o := wire.ValueOf(data).Obj()
	choice := first(o)
	reason := finishReason(choice.Get("finish_reason").Str(), client)
	return wire.Apply(data, append(l.same(o), choice.With("finish_reason", wire.Quote(reason)))...)
}

// finishReason is what a round with calls of ours ends the reply with: the
// client must not wait for calls it never saw, nor miss those it did.
func finishReason(reason string, client bool) string {
	switch reason {
	case "", "stop", "tool_calls":
		if client {
			return "tool_calls"
		}
		return "length"
	}
	return reason
}

// Fail ends the reply with an error chunk.
func (l *streamLoop) Fail(kind, message string) []byte {
	l.out = l.out[:0]
	l.send(failure(kind, message))
	l.send([]byte(done))
	return l.out
}

func failure(kind, message string) []byte {
	return slices.Concat([]byte(`{"error":{"message":`), wire.Quote(message), []byte(`,"type":`), wire.Quote(kind), []byte(`,"param":null,"code":null}}`))
}

// Say adds text.
func (l *streamLoop) Say(text string) []byte {
	l.out = l.out[:0]
	l.say(text)
	return l.out
}

func (l *streamLoop) say(text string) {
	var delta wire.Growing
	if !l.given.Has("role") {
		delta.Set("role", []byte(`"assistant"`))
	}
	delta.Set("content", wire.Quote(l.given.aside(text)))
	data := delta.Bytes()
	l.send(l.head.chunk(data, "null"))
	l.given.take(wire.ValueOf(data).Obj())
}

// note keeps a reply out of which we took all there was from being empty.
func (l *streamLoop) note() {
	if (l.round.held || l.rounds > 0) && !l.visible() {
		l.say(l.o.Note)
	}
}

// visible says that a person or a client finds something in the reply.
func (l *streamLoop) visible() bool {
	return l.given.visible() || slices.ContainsFunc(l.round.calls, func(c *call) bool { return c.is == theirs })
}

// Ping keeps the client waiting.
func (l *streamLoop) Ping() []byte {
	l.out = l.out[:0]
	l.mend()
	l.out = append(l.out, ": waiting\n\n"...)
	return l.out
}

// Reply is the message the client has.
func (l *streamLoop) Reply() []byte {
	var theirsOnly []*call
	for _, c := range l.round.calls {
		if c.is == theirs {
			theirsOnly = append(theirsOnly, c)
		}
	}
	return elementOf(l.given.Growing, theirsOnly)
}

// pass gives bytes of the upstream as they came: they may go on where the last
// ones of the round left off.
func (l *streamLoop) pass(raw []byte) {
	if l.fresh {
		l.mend()
	}
	l.fresh = false
	l.out = append(l.out, raw...)
	l.torn = !sse.Whole(raw)
}

// send gives an event of our own making.
func (l *streamLoop) send(data []byte) {
	l.mend()
	l.out = sse.AppendEvent(l.out, "", data)
}

// mend ends an event that the upstream left open.
func (l *streamLoop) mend() {
	if l.torn {
		l.out = append(l.out, "\n\n"...)
		l.torn = false
	}
}

// head is what all chunks of a reply have in common, as JSON.
type head struct{ id, created, model []byte }

// learn reads it from the first chunk that has it.
func (h *head) learn(o wire.Object) {
	for name, v := range map[string]*[]byte{"id": &h.id, "created": &h.created, "model": &h.model} {
		if value := o.Get(name); *v == nil && !value.Absent() {
			*v = bytes.Clone(value.Bytes())
		}
	}
}

// chunk is one of our own.
func (h *head) chunk(delta []byte, finish string) []byte {
	var g wire.Growing
	if h.id != nil {
		g.Set("id", h.id)
	}
	g.Set("object", []byte(`"chat.completion.chunk"`))
	if h.created != nil {
		g.Set("created", h.created)
	}
	if h.model != nil {
		g.Set("model", h.model)
	}
	g.Set("choices", slices.Concat([]byte(`[{"index":0,"delta":`), delta, []byte(`,"finish_reason":`+finish+`}]`)))
	return g.Bytes()
}

// given is what the client has been given of the reply, calls apart.
type given struct {
	wire.Growing
	// between says that text of an earlier round came before.
	between bool
}

// take takes a piece of the message as the client gets it.
func (g *given) take(o wire.Object) {
	if role := o.Get("role"); !role.Absent() {
		g.Set("role", role.Bytes())
	}
	g.between = g.between && o.Get("content").Str() == ""
	g.GrowAll(o, "role", "tool_calls")
}

// visible says whether a person finds something in it.
func (g *given) visible() bool {
	o := wire.ValueOf(g.Bytes()).Obj()
	return strings.TrimSpace(g.Text("content")+g.Text("refusal")) != "" || o.Get("content").Is('[')
}

// paragraph stands between texts of two rounds: the client has them in one.
const paragraph = "\n\n"

// apart is text with a paragraph before it where it needs one.
func (g *given) apart(text string) string {
	if !g.between || text == "" || strings.HasSuffix(g.Text("content"), "\n") || strings.HasPrefix(text, "\n") {
		return text
	}
	return paragraph + text
}

// aside is text of our own, apart from all there is.
func (g *given) aside(text string) string {
	g.between = g.Text("content") != ""
	return g.apart(text)
}

// same are the changes that make a later round's chunk one of the first's: its
// id, its time, and counts that are those of the whole reply.
func (l *streamLoop) same(o wire.Object) []wire.Edit {
	if l.rounds == 0 {
		return nil
	}
	return append(l.head.same(o), summed(o, l.output)...)
}

func (h *head) same(o wire.Object) (edits []wire.Edit) {
	if h.id != nil && !o.Get("id").Absent() {
		edits = append(edits, o.With("id", h.id))
	}
	if h.created != nil && !o.Get("created").Absent() {
		edits = append(edits, o.With("created", h.created))
	}
	return edits
}

// summed gives the usage of a reply the output of the rounds before; its input
// is the last round's.
func summed(o wire.Object, before int64) []wire.Edit {
	v := o.Get("usage")
	if !v.Is('{') {
		return nil
	}
	usage := v.Obj()
	output := before + usage.Get("completion_tokens").Num()
	return []wire.Edit{
		usage.With("completion_tokens", number(output)),
		usage.With("total_tokens", number(usage.Get("prompt_tokens").Num()+output)),
	}
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// first is the first choice of a chunk or a reply.
func first(o wire.Object) wire.Object {
	choices, _ := o.Get("choices").List()
	for _, v := range choices {
		if choice := v.Obj(); choice.Get("index").Num() == 0 {
			return choice
		}
	}
	return wire.Object{}
}
