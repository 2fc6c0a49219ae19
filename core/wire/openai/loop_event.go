package openai

import (
	"bytes"

	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

// event takes one event of the round.
func (l *streamLoop) event(raw []byte, ev sse.Event) {
	if len(ev.Data) > 0 {
		readEvent(&l.round.info, ev)
	}
	l.round.size += len(ev.Data)
	e := event{raw: raw, data: ev.Data}
	o := wire.ValueOf(ev.Data).Obj()
	if l.rounds == 0 {
		l.head.learn(o)
	}
	if choice := first(o); choice.Members != nil {
		e.calls = l.collect(choice.Get("delta").Obj())
		if !choice.Get("finish_reason").Absent() {
			l.settle()
		}
	} else if l.round.info.Terminal {
		l.settle()
	}
	l.drain()
	if len(l.round.queue) > 0 || e.open() {
		e.raw, e.data = bytes.Clone(e.raw), bytes.Clone(e.data)
		l.round.queue = append(l.round.queue, e)
		return
	}
	l.give(e)
}

// open says that a call in the event is not told apart yet.
func (e event) open() bool {
	for _, c := range e.calls {
		if c.is == unknown {
			return true
		}
	}
	return false
}

// drain gives what waits no longer.
func (l *streamLoop) drain() {
	q := l.round.queue
	for len(q) > 0 && !q[0].open() {
		l.give(q[0])
		q = q[1:]
	}
	l.round.queue = q
}

// collect takes a delta and returns the call of each of its fragments.
func (l *streamLoop) collect(delta wire.Object) (calls []*call) {
	readable := l.round.readable()
	if readable {
		l.round.message.GrowAll(delta, "role", "tool_calls")
	}
	fragments, _ := delta.Get("tool_calls").List()
	for _, v := range fragments {
		o := v.Obj()
		c := l.call(o)
		if readable {
			c.grow(o, l.o.Own)
			c.tell(l.o.Own)
		}
		l.round.held = l.round.held || c.is == ours
		calls = append(calls, c)
	}
	if !readable {
		l.settle()
	}
	return calls
}

// call finds the call of a fragment. One with a new index is the next; so is
// one with a new id, where a server gives all calls one index. The calls before
// it have their names.
func (l *streamLoop) call(fragment wire.Object) *call {
	index, id := fragment.Get("index").Num(), fragment.Get("id").Str()
	for i := len(l.round.calls) - 1; i >= 0; i-- {
		if c := l.round.calls[i]; c.index == index {
			if id == "" || c.id == "" || c.id == id {
				return c
			}
			break
		}
	}
	l.settle()
	c := &call{index: index}
	for _, before := range l.round.calls {
		if before.is == ours && before.index < index {
			c.lower++
		}
	}
	l.round.calls = append(l.round.calls, c)
	return c
}

// settle decides whose all calls are.
func (l *streamLoop) settle() {
	for _, c := range l.round.calls {
		c.settle(l.o.Own)
		l.round.held = l.round.held || c.is == ours
	}
}

// give gives the client what it is to have of an event. What ends a later round
// waits for Close.
func (l *streamLoop) give(e event) {
	if l.rounds > 0 && l.round.info.Terminal && !l.round.closed {
		l.round.end = append(l.round.end, event{bytes.Clone(e.raw), bytes.Clone(e.data), e.calls})
		return
	}
	if string(e.data) == done {
		l.done(e.raw)
		return
	}
	o := wire.ValueOf(e.data).Obj()
	switch choice := first(o); {
	case choice.Members != nil:
		l.chunk(e, o, choice)
	case !o.Get("usage").Absent():
		l.usage(e, o)
	case len(o.Members) > 0:
		l.edited(e, l.same(o))
	case l.rounds == 0 && !l.round.held || quiet(e):
		// what is broken off may belong to a call of ours
		l.pass(e.raw)
	}
}

// quiet says whether an event can come in a later round as well: a comment, a
// blank line or an error in words.
func quiet(e event) bool {
	raw := bytes.TrimSpace(e.raw)
	return len(raw) == 0 || raw[0] == ':' || bytes.HasPrefix(raw, []byte("event: error"))
}

// edited gives an event with changes; without any, as it came.
func (l *streamLoop) edited(e event, edits []wire.Edit) {
	if len(edits) == 0 {
		l.pass(e.raw)
		return
	}
	l.send(wire.Apply(e.data, edits...))
}

// done is the end of the stream. Where no chunk told the finish reason, it is
// the last chance to say something.
func (l *streamLoop) done(raw []byte) {
	if l.round.held {
		return
	}
	if l.round.info.StopReason == "" && l.round.info.Err == "" {
		l.note()
	}
	l.pass(raw)
}

// usage is the chunk that holds the counts alone.
func (l *streamLoop) usage(e event, o wire.Object) {
	switch {
	case l.o.HideUsage:
	case l.round.held:
		l.round.usage = bytes.Clone(e.data)
	default:
		l.edited(e, l.same(o))
	}
}

// chunk is a piece of the message.
func (l *streamLoop) chunk(e event, o, choice wire.Object) {
	finishes := !choice.Get("finish_reason").Absent()
	if finishes && l.round.held {
		l.hold(e, o, choice)
		return
	}
	edits := l.same(o)
	rest, changed := l.delta(e, choice.Get("delta").Obj())
	if changed {
		edits = append(edits, choice.With("delta", rest))
	}
	l.take(rest)
	if finishes {
		l.note()
	} else if changed && empty(rest) && o.Get("usage").Absent() {
		return
	}
	l.edited(e, edits)
}

// take notes what the client is given of the message.
func (l *streamLoop) take(delta []byte) {
	if l.round.readable() {
		l.given.take(wire.ValueOf(delta).Obj())
	}
}

// hold keeps the chunk that would end the round; what else it says is given.
func (l *streamLoop) hold(e event, o, choice wire.Object) {
	if rest, _ := l.delta(e, choice.Get("delta").Obj()); !empty(rest) {
		l.take(rest)
		edits := append(l.head.same(o), choice.With("delta", rest), choice.With("finish_reason", []byte("null")))
		if !o.Get("usage").Absent() {
			edits = append(edits, o.With("usage", []byte("null")))
		}
		l.send(wire.Apply(e.data, edits...))
	}
	l.round.finish = bytes.Clone(wire.Apply(e.data, choice.With("delta", []byte("{}"))))
}

// delta is what the client is to have of a delta, and whether that is another.
func (l *streamLoop) delta(e event, delta wire.Object) (rest []byte, changed bool) {
	calls := e.calls
	rest = delta.Rewrite(func(name string, v wire.Value) []byte {
		value := v.Bytes()
		switch {
		case name == "tool_calls":
			value = fragments(calls, v)
			calls = nil
		case name == "role" && l.rounds > 0:
			value = nil
		case name == "content" && v.Is('"') && l.rounds > 0:
			if text := v.Str(); l.given.apart(text) != text {
				value = wire.Quote(paragraph + text)
			}
		}
		changed = changed || !bytes.Equal(value, v.Bytes())
		return value
	})
	return rest, changed
}

// fragments are those of the client's calls, with the index the client knows
// them by; nil if there are none. A list without calls is left as it is.
func fragments(calls []*call, v wire.Value) []byte {
	var kept [][]byte
	same := true
	list, _ := v.List()
	for i, c := range calls[:min(len(calls), len(list))] {
		o := list[i].Obj()
		switch index := o.Get("index"); {
		case c.is == ours:
			same = false
		case c.lower > 0 && !index.Absent():
			same = false
			kept = append(kept, o.Set("index", number(index.Num()-c.lower)))
		default:
			kept = append(kept, o.Bytes())
		}
	}
	switch {
	case same:
		return v.Bytes()
	case kept == nil:
		return nil
	}
	return wire.JoinList(kept)
}

// empty says whether a delta says nothing.
func empty(delta []byte) bool {
	for _, m := range wire.ValueOf(delta).Obj().Members {
		if value := string(m.Value.Of(delta)); value != "null" && value != `""` {
			return false
		}
	}
	return true
}
