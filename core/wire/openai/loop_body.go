package openai

import (
	"slices"

	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

// bodyLoop is the tool loop on replies that are not streamed: each round is
// read as a whole.
type bodyLoop struct {
	o     wire.LoopOptions
	given given
	head  head
	body  []byte
	// over says that the body is too long to be read: it only passes.
	over bool
	// rounds counts the rounds before this one, output their output tokens.
	rounds int
	output int64
	round  bodyRound
}

// bodyRound is one whole reply.
type bodyRound struct {
	wire.Round
	reply, choice, message wire.Object
	// calls are the client's, as they came.
	calls [][]byte
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
	reader := sse.NewJSONReader(readChunk)
	reader.Write(l.body)
	r.Info = reader.Info()
	if r.Cut = !r.Info.Terminal; r.Cut || r.Info.Err != "" {
		return r
	}
	r.reply = wire.ValueOf(l.body).Obj()
	if l.rounds == 0 {
		l.head.learn(r.reply)
	}
	r.choice = first(r.reply)
	r.message = r.choice.Get("message").Obj()
	var said wire.Growing
	said.GrowAll(r.message, "tool_calls")
	r.Element = elementOf(said, r.sort(l.o.Own))
	l.take(r.message)
	return r
}

// sort tells the calls apart and returns them all.
func (r *bodyRound) sort(own []string) (calls []*call) {
	list, _ := r.message.Get("tool_calls").List()
	for _, v := range list {
		c := &call{}
		c.grow(v.Obj(), nil)
		c.settle(own)
		calls = append(calls, c)
		if c.is == ours {
			r.Own = append(r.Own, c.own())
			continue
		}
		r.Client++
		r.calls = append(r.calls, v.Bytes())
	}
	return calls
}

// take adds what a message says to what the client is given.
func (l *bodyLoop) take(message wire.Object) {
	l.given.take(wire.ValueOf(message.Rewrite(func(name string, v wire.Value) []byte {
		if text := v.Str(); name == "content" && l.given.apart(text) != text {
			return wire.Quote(paragraph + text)
		}
		return v.Bytes()
	})).Obj())
}

// merged is the reply of all rounds: the last one's, with what the client has
// not seen of those before it.
func (l *bodyLoop) merged(more ...wire.Edit) []byte {
	o := l.round.reply
	edits := append([]wire.Edit{l.round.choice.With("message", l.message())}, more...)
	if l.rounds > 0 {
		edits = append(append(edits, l.head.same(o)...), summed(o, l.output)...)
	}
	return wire.Apply(l.body, edits...)
}

// message is the last one with all that was said, and without our calls.
func (l *bodyLoop) message() []byte {
	if !l.given.visible() && l.round.Client == 0 {
		l.say(l.o.Note)
	}
	given := wire.ValueOf(l.given.Bytes()).Obj()
	message := wire.ValueOf(l.round.message.Rewrite(func(name string, v wire.Value) []byte {
		if name == "tool_calls" {
			return l.calls(v)
		}
		if all := given.Get(name); !all.Absent() {
			return all.Bytes()
		}
		return v.Bytes()
	})).Obj()
	for _, m := range given.Members {
		if message.Get(m.Name).Len() == 0 {
			message = wire.ValueOf(message.Set(m.Name, given.Get(m.Name).Bytes())).Obj()
		}
	}
	return message.Bytes()
}

// calls are the client's; without any there is no list of them.
func (l *bodyLoop) calls(v wire.Value) []byte {
	switch {
	case len(l.round.Own) == 0:
		return v.Bytes()
	case l.round.calls == nil:
		return nil
	}
	return wire.JoinList(l.round.calls)
}

// Next begins another round.
func (l *bodyLoop) Next() {
	l.output += l.round.Info.Counts.Output
	l.rounds++
	l.given.between = l.given.Text("content") != ""
	l.body, l.over, l.round = nil, false, bodyRound{}
}

// Finish ends the reply after a round with calls of ours.
func (l *bodyLoop) Finish() []byte {
	choice := l.round.choice
	reason := finishReason(choice.Get("finish_reason").Str(), l.round.Client > 0)
	return l.merged(choice.With("finish_reason", wire.Quote(reason)))
}

// Fail is the error alone.
func (l *bodyLoop) Fail(kind, message string) []byte { return failure(kind, message) }

// Say adds text.
func (l *bodyLoop) Say(text string) []byte {
	l.say(text)
	return nil
}

func (l *bodyLoop) say(text string) {
	content := slices.Concat([]byte(`{"content":`), wire.Quote(l.given.aside(text)), []byte("}"))
	l.given.take(wire.ValueOf(content).Obj())
}

// Ping has no place in a body.
func (l *bodyLoop) Ping() []byte { return nil }

// Reply is the message the client has.
func (l *bodyLoop) Reply() []byte {
	var calls []*call
	for _, raw := range l.round.calls {
		c := &call{}
		c.grow(wire.ValueOf(raw).Obj(), nil)
		calls = append(calls, c)
	}
	return elementOf(l.given.Growing, calls)
}
