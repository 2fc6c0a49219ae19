package sse

import "holdfast/core/wire"

// MaxReply is the largest JSON reply that is read; a longer one passes unread.
const MaxReply = 32 << 20

// EventReader is the [wire.Reply] of an event stream: read takes each event into
// what is known so far. It must not keep the event's data.
type EventReader struct {
	info  wire.ReplyInfo
	read  func(*wire.ReplyInfo, Event)
	split *Splitter
}

// NewEventReader returns a reader of one stream.
func NewEventReader(read func(*wire.ReplyInfo, Event)) *EventReader {
	r := &EventReader{read: read}
	r.split = New(func(ev Event) { read(&r.info, ev) })
	return r
}

// Write takes the next bytes of the stream.
func (r *EventReader) Write(p []byte) (int, error) { return r.split.Write(p) }

// Info is what is known so far, an event the stream never ended included.
func (r *EventReader) Info() wire.ReplyInfo {
	info := r.info
	if ev, ok := r.split.Pending(); ok {
		r.read(&info, ev)
	}
	return info
}

// JSONReader is the [wire.Reply] of a plain body: it is collected, and read when
// Info finds it complete.
type JSONReader struct {
	body []byte
	over bool
	read func(*wire.ReplyInfo, wire.Object)
	// info is of the first known bytes of body.
	info  wire.ReplyInfo
	known int
}

// NewJSONReader returns a reader of one body; read gets its top-level object.
func NewJSONReader(read func(*wire.ReplyInfo, wire.Object)) *JSONReader {
	return &JSONReader{read: read}
}

// Write takes the next bytes of the body.
func (r *JSONReader) Write(p []byte) (int, error) {
	if r.over = r.over || len(r.body)+len(p) > MaxReply; r.over {
		r.body = nil
		return len(p), nil
	}
	r.body = append(r.body, p...)
	return len(p), nil
}

// Info reads the body if it is complete by now; a complete one is terminal. It
// looks at the last byte first, so that asking after every write stays cheap.
func (r *JSONReader) Info() wire.ReplyInfo {
	if r.known == len(r.body) {
		return r.info
	}
	r.info, r.known = wire.ReplyInfo{}, len(r.body)
	v := wire.ValueOf(r.body)
	if !v.Is('{') || r.body[v.End-1] != '}' {
		return r.info
	}
	if o, err := v.Object(); err == nil {
		r.read(&r.info, o)
		r.info.Terminal = true
	}
	return r.info
}
