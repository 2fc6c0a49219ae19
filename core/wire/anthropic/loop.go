package anthropic

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

var _ wire.Looper = Codec{}

// Loop starts reading the first round of a reply.
func (Codec) Loop(stream bool, o wire.LoopOptions) wire.Loop {
	if stream {
		return newStreamLoop(o)
	}
	return &bodyLoop{o: o}
}

// streamLoop is the tool loop on an event stream. The name of a call comes
// whole with the start of its block, so only our calls and the end of a round
// that has some are ever held.
type streamLoop struct {
	o     wire.LoopOptions
	out   []byte
	given given
	cut   *sse.Cutter
	round round
	// rounds counts the rounds before this one.
	rounds int
	// output sums their output tokens.
	output int64
	// next is the index of the client's next block, open how many of the
	// client's are being sent.
	next, open int64
	// said waits for the block that is open.
	said []string
	// torn says that the last bytes given were not a whole event, fresh that
	// none of this round have been given.
	torn, fresh bool
}

// round is what one upstream reply has told so far.
type round struct {
	info   wire.ReplyInfo
	blocks map[int64]*block
	// content are the blocks that have ended, in order.
	content [][]byte
	own     []wire.Call
	client  int
	// held says that a call of ours was seen.
	held bool
	// delta is the data of the message_delta that was held, stop the bytes of
	// the message_stop.
	delta, stop []byte
	// size counts the bytes of the events.
	size int
}

// readable bounds what is collected.
func (r *round) readable() bool { return r.size <= sse.MaxReply }

// block is one that is being sent.
type block struct {
	wire.Growing
	own bool
	// as is its index in the client's reply.
	as int64
	// args are the arguments of a call so far.
	args []byte
}

func newStreamLoop(o wire.LoopOptions) *streamLoop {
	l := &streamLoop{o: o}
	l.begin()
	return l
}

func (l *streamLoop) begin() {
	l.round = round{blocks: map[int64]*block{}}
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
	r := &l.round
	if l.rounds > 0 && !r.held {
		l.end()
	}
	var element []byte
	if r.readable() {
		element = elementOf(r.content)
	}
	return l.out, wire.Round{Own: r.own, Client: r.client, Element: element, Info: r.info, Cut: !r.info.Terminal}
}

// Next begins another round.
func (l *streamLoop) Next() {
	l.output += l.round.info.Counts.Output
	l.rounds++
	l.begin()
}

// Finish ends a reply whose end was held.
func (l *streamLoop) Finish() []byte {
	l.out = l.out[:0]
	delta := &l.round.delta
	if *delta == nil {
		*delta = []byte(`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null}}`)
	}
	inner := wire.ValueOf(*delta).Obj().Get("delta").Obj()
	if reason := stopReason(inner.Get("stop_reason").Str(), l.round.client); reason != "" && len(inner.Members) > 0 {
		*delta = wire.Apply(*delta, inner.With("stop_reason", wire.Quote(reason)))
	}
	if l.round.stop == nil {
		l.round.stop = sse.AppendEvent(nil, "message_stop", []byte(`{"type":"message_stop"}`))
	}
	l.end()
	return l.out
}

// end gives the end that was held.
func (l *streamLoop) end() {
	if delta := l.round.delta; delta != nil {
		l.note()
		l.send("message_delta", wire.Apply(delta, l.counted(delta)...))
	}
	if l.round.stop != nil {
		l.pass(l.round.stop)
	}
}

// stopReason is what a reply that ends with calls of ours says instead: the
// client must not wait for calls it never saw. Empty when reason may stay.
func stopReason(reason string, client int) string {
	switch {
	case client > 0 && reason == "":
		return "tool_use"
	case client == 0 && (reason == "" || reason == "tool_use"):
		return "max_tokens"
	}
	return ""
}

// Fail ends the reply with an error event, as the API does.
func (l *streamLoop) Fail(kind, message string) []byte {
	l.out = l.out[:0]
	l.send("error", failure(kind, message))
	return l.out
}

func failure(kind, message string) []byte {
	return slices.Concat([]byte(`{"type":"error","error":{"type":`), wire.Quote(kind), []byte(`,"message":`), wire.Quote(message), []byte("}}"))
}

// Say adds a text block.
func (l *streamLoop) Say(text string) []byte {
	l.out = l.out[:0]
	if l.said = append(l.said, text); l.open == 0 && l.next > 0 {
		l.speak()
	}
	return l.out
}

// speak sends what has been said since a block was opened.
func (l *streamLoop) speak() {
	for _, text := range l.said {
		index := strconv.AppendInt(nil, l.next, 10)
		l.next++
		at := func(kind, rest string) []byte {
			return slices.Concat([]byte(`{"type":"`+kind+`","index":`), index, []byte(rest))
		}
		l.send("content_block_start", at("content_block_start", `,"content_block":{"type":"text","text":""}}`))
		l.send("content_block_delta", at("content_block_delta", `,"delta":{"type":"text_delta","text":`+string(wire.Quote(text))+"}}"))
		l.send("content_block_stop", at("content_block_stop", "}"))
		l.given.say(text)
	}
	l.said = nil
}

// note keeps a reply out of which we took all there was from being empty.
func (l *streamLoop) note() {
	if !l.untouched() && !l.given.visible && len(l.said) == 0 {
		l.said = append(l.said, l.o.Note)
	}
	l.speak()
}

// Ping keeps the client waiting.
func (l *streamLoop) Ping() []byte {
	l.out = l.out[:0]
	l.send("ping", []byte(`{"type":"ping"}`))
	return l.out
}

// Reply is the message the client has.
func (l *streamLoop) Reply() []byte { return elementOf(l.given.content) }

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
func (l *streamLoop) send(name string, data []byte) {
	l.mend()
	l.out = sse.AppendEvent(l.out, name, data)
}

// mend ends an event that the upstream left open.
func (l *streamLoop) mend() {
	if l.torn {
		l.out = append(l.out, "\n\n"...)
		l.torn = false
	}
}

// given is what the client has been given of the reply.
type given struct {
	content [][]byte
	// visible says that a person or a client finds something in it.
	visible bool
}

func (g *given) say(text string) { g.add(textBlock(text)) }

func (g *given) add(block []byte) {
	g.content = append(g.content, block)
	g.visible = g.visible || visible(block)
}

func textBlock(text string) []byte {
	return slices.Concat([]byte(`{"type":"text","text":`), wire.Quote(text), []byte("}"))
}

// visible says whether a block is more than reasoning or white space.
func visible(block []byte) bool {
	o := wire.ValueOf(block).Obj()
	switch o.Get("type").Str() {
	case "thinking", "redacted_thinking":
		return false
	case "text":
		return !blank(o)
	}
	return true
}

// blank says whether a text block is one that the API would not take back.
func blank(block wire.Object) bool { return strings.TrimSpace(block.Get("text").Str()) == "" }

// elementOf is the message of these blocks without empty texts; nil if there is
// none to send.
func elementOf(content [][]byte) []byte {
	var kept [][]byte
	for _, block := range content {
		if o := wire.ValueOf(block).Obj(); o.Get("type").Str() != "text" || !blank(o) {
			kept = append(kept, block)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return wire.Sound(slices.Concat([]byte(`{"role":"assistant","content":`), wire.JoinList(kept), []byte("}")))
}

// arguments are those of a call as they may be sent back: an object.
func arguments(args []byte) []byte {
	if wire.Strict(args) != nil || !wire.ValueOf(args).Is('{') {
		return []byte("{}")
	}
	return bytes.TrimSpace(args)
}
