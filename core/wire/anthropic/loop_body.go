package anthropic

import (
	"bytes"
	"slices"

	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

// bodyLoop is the tool loop on replies that are not streamed: each round is
// read as a whole.
type bodyLoop struct {
	o     wire.LoopOptions
	given given
	body  []byte
	// over says that the body is too long to be read: it only passes.
	over bool
	// id is the first round's message id, quoted.
	id []byte
	// rounds counts the rounds before this one, output their output tokens.
	rounds int
	output int64
	round  bodyRound
}

// bodyRound is one whole reply.
type bodyRound struct {
	wire.Round
	message wire.Object
}

// Feed takes the next bytes of the round.
func (l *bodyLoop) Feed(p []byte) []byte {
	if l.over {
		return p
	}
	l.body = append(l.body, p...)
	if l.over = len(l.body) > sse.MaxReply; l.over && l.rounds == 0 {
		return l.body
	}
	return nil
}

// Close ends the round. A body that says nothing is the client's to judge.
func (l *bodyLoop) Close() ([]byte, wire.Round) {
	if l.over {
		return nil, wire.Round{Cut: true}
	}
	l.round = l.read()
	r := l.round.Round
	switch {
	case len(r.Own) > 0 || r.Cut && l.rounds > 0:
		return nil, r
	case l.rounds == 0 || r.Info.Err != "":
		return l.body, r
	}
	return l.merged(), r
}

func (l *bodyLoop) read() bodyRound {
	var r bodyRound
	reader := sse.NewJSONReader(readBody)
	reader.Write(l.body)
	r.Info = reader.Info()
	if r.Cut = !r.Info.Terminal; r.Cut || r.Info.Err != "" {
		return r
	}
	r.message = wire.ValueOf(l.body).Obj()
	if l.id == nil {
		l.id = bytes.Clone(r.message.Get("id").Bytes())
	}
	var content [][]byte
	blocks, _ := r.message.Get("content").List()
	for _, v := range blocks {
		content = append(content, v.Bytes())
		l.take(&r, v)
	}
	r.Element = elementOf(content)
	return r
}

// take sorts one block to us or to the client.
func (l *bodyLoop) take(r *bodyRound, v wire.Value) {
	o := v.Obj()
	if o.Get("type").Str() == "tool_use" {
		if slices.Contains(l.o.Own, o.Get("name").Str()) {
			r.Own = append(r.Own, ownCall(o, nil))
			return
		}
		r.Client++
	}
	l.given.add(v.Bytes())
}

// merged is the reply of all rounds: the last one's, with what the client has
// not seen of those before it.
func (l *bodyLoop) merged(more ...wire.Edit) []byte {
	if !l.given.visible {
		l.given.say(l.o.Note)
	}
	m := l.round.message
	edits := []wire.Edit{m.With("content", wire.JoinList(l.given.content))}
	if l.rounds > 0 {
		edits = append(edits, summed(m, l.round.Info.Counts, l.output)...)
	}
	if l.rounds > 0 && len(l.id) > 0 {
		edits = append(edits, m.With("id", l.id))
	}
	return wire.Apply(l.body, append(edits, more...)...)
}

// Next begins another round.
func (l *bodyLoop) Next() {
	l.output += l.round.Info.Counts.Output
	l.rounds++
	l.body, l.over, l.round = nil, false, bodyRound{}
}

// Finish ends the reply after a round with calls of ours.
func (l *bodyLoop) Finish() []byte {
	m := l.round.message
	if reason := stopReason(m.Get("stop_reason").Str(), l.round.Client); reason != "" {
		return l.merged(m.With("stop_reason", wire.Quote(reason)))
	}
	return l.merged()
}

// Fail is the error alone.
func (l *bodyLoop) Fail(kind, message string) []byte { return failure(kind, message) }

// Say adds a text block.
func (l *bodyLoop) Say(text string) []byte {
	l.given.say(text)
	return nil
}

// Ping has no place in a body.
func (l *bodyLoop) Ping() []byte { return nil }

// Reply is the message the client has.
func (l *bodyLoop) Reply() []byte { return elementOf(l.given.content) }
