package anthropic

import (
	"bytes"
	"slices"
	"strconv"

	"holdfast/core/wire"
	"holdfast/core/wire/sse"
)

// event takes one event of the round.
func (l *streamLoop) event(raw []byte, ev sse.Event) {
	readEvent(&l.round.info, ev)
	l.round.size += len(ev.Data)
	o := wire.ValueOf(ev.Data).Obj()
	kind := o.Get("type").Str()
	switch {
	case ev.Name == "error" || kind == "error":
		l.pass(raw)
	case kind == "content_block_start":
		l.start(raw, ev, o)
	case kind == "message_start":
		if l.rounds == 0 {
			l.pass(raw)
		}
	case kind == "message_delta", kind == "message_stop":
		l.ending(raw, ev, kind)
	case !o.Get("index").Absent():
		l.inside(raw, ev, o, kind)
	case kind == "" && !l.untouched() && !quiet(raw):
		// what is too long or broken may belong to a call of ours
	default:
		l.pass(raw)
	}
}

// untouched says that the reply is still the very one that came.
func (l *streamLoop) untouched() bool { return l.rounds == 0 && !l.round.held }

// quiet says whether bytes without an event are a comment or nothing.
func quiet(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || raw[0] == ':'
}

// start begins a block: one of ours stays here.
func (l *streamLoop) start(raw []byte, ev sse.Event, o wire.Object) {
	content := o.Get("content_block").Obj()
	b := &block{}
	b.GrowAll(content)
	l.round.blocks[o.Get("index").Num()] = b
	if content.Get("type").Str() == "tool_use" {
		if b.own = slices.Contains(l.o.Own, content.Get("name").Str()); b.own {
			l.round.held = true
			return
		}
	}
	b.as = l.next
	if l.untouched() {
		b.as = o.Get("index").Num()
	}
	l.next = b.as + 1
	l.open++
	l.moved(raw, ev, o, b.as)
}

// inside takes an event of a block that has started; of one that has not there
// is nothing to add to, in a later round.
func (l *streamLoop) inside(raw []byte, ev sse.Event, o wire.Object, kind string) {
	b := l.round.blocks[o.Get("index").Num()]
	if b == nil {
		if l.untouched() {
			l.pass(raw)
		}
		return
	}
	if kind == "content_block_delta" && l.round.readable() {
		b.delta(o.Get("delta").Obj())
	}
	if !b.own {
		l.moved(raw, ev, o, b.as)
	}
	if kind == "content_block_stop" {
		l.stop(o.Get("index").Num(), b)
	}
}

// delta takes a fragment. The member of a fragment is that of the block, but
// for arguments and citations; signatures come whole.
func (b *block) delta(o wire.Object) {
	b.args = append(b.args, o.Get("partial_json").Str()...)
	if citation := o.Get("citation"); !citation.Absent() {
		b.Add("citations", citation.Bytes())
	}
	b.GrowAll(o, "type", "partial_json", "citation")
}

// stop ends a block.
func (l *streamLoop) stop(index int64, b *block) {
	delete(l.round.blocks, index)
	args := b.args
	if len(args) > 0 {
		b.Set("input", arguments(args))
	}
	whole := b.Bytes()
	l.round.content = append(l.round.content, whole)
	if b.own {
		l.round.own = append(l.round.own, ownCall(wire.ValueOf(whole).Obj(), args))
		return
	}
	if b.Text("type") == "tool_use" {
		l.round.client++
	}
	l.given.add(whole)
	if l.open--; l.open == 0 {
		l.speak()
	}
}

// ownCall reads a call; args are what the model wrote where that is not simply
// its input.
func ownCall(o wire.Object, args []byte) wire.Call {
	if len(args) == 0 {
		args = bytes.Clone(o.Get("input").Bytes())
	}
	return wire.Call{ID: o.Get("id").Str(), Name: o.Get("name").Str(), Args: args}
}

// moved gives an event of a block, with the index the client knows it by.
func (l *streamLoop) moved(raw []byte, ev sse.Event, o wire.Object, as int64) {
	if o.Get("index").Num() == as {
		l.pass(raw)
		return
	}
	l.send(ev.Name, wire.Apply(ev.Data, o.With("index", number(as))))
}

// ending takes what ends the message. It waits for Close after the first round,
// and when calls of ours are to be answered first.
func (l *streamLoop) ending(raw []byte, ev sse.Event, kind string) {
	switch {
	case l.untouched():
		l.pass(raw)
	case kind == "message_delta":
		l.round.delta = bytes.Clone(ev.Data)
	default:
		l.round.stop = bytes.Clone(raw)
	}
}

// counted are the changes to a message_delta that make its counts those of the
// whole reply.
func (l *streamLoop) counted(delta []byte) []wire.Edit {
	if l.rounds == 0 {
		return nil
	}
	return summed(wire.ValueOf(delta).Obj(), l.round.info.Counts, l.output)
}

// summed gives the usage of a message the counts of rounds that are one reply
// to the client: the last round's input, the output of all.
func summed(message wire.Object, last wire.Counts, before int64) []wire.Edit {
	counts := []struct {
		name string
		n    int64
	}{
		{"input_tokens", last.Input},
		{"cache_creation_input_tokens", last.CacheWrite},
		{"cache_read_input_tokens", last.Cached},
		{"output_tokens", before + last.Output},
	}
	usage := message.Get("usage")
	var edits []wire.Edit
	var fresh wire.Growing
	for _, c := range counts {
		if usage.Is('{') {
			edits = append(edits, usage.Obj().With(c.name, number(c.n)))
		}
		fresh.Set(c.name, number(c.n))
	}
	if edits == nil {
		edits = []wire.Edit{message.With("usage", fresh.Bytes())}
	}
	return edits
}

func number(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
