package wire

import "holdfast/core/wire/sse"

// MaxReply is the largest JSON reply that is read; a longer one passes unread.
const MaxReply = 32 << 20

// EventReader is the Reply of an event stream: read takes each event into what
// is known so far. It must not keep the event's data.
type EventReader struct {
	info  ReplyInfo
	read  func(*ReplyInfo, sse.Event)
	split *sse.Splitter
}

// NewEventReader returns a reader of one stream.
func NewEventReader(read func(*ReplyInfo, sse.Event)) *EventReader {
	r := &EventReader{read: read}
	r.split = sse.New(func(ev sse.Event) { read(&r.info, ev) })
	return r
}

// Write takes the next bytes of the stream.
func (r *EventReader) Write(p []byte) (int, error) { return r.split.Write(p) }

// Info is what is known so far, an event the stream never ended included.
func (r *EventReader) Info() ReplyInfo {
	info := r.info
	if ev, ok := r.split.Pending(); ok {
		r.read(&info, ev)
	}
	return info
}

// JSONReader is the Reply of a plain body: it is collected and read when Info
// finds it complete.
type JSONReader struct {
	body []byte
	over bool
	read func(*ReplyInfo, Object)
	// info is of the first known bytes of body.
	info  ReplyInfo
	known int
}

// NewJSONReader returns a reader of one body; read gets its top-level object.
func NewJSONReader(read func(*ReplyInfo, Object)) *JSONReader {
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
func (r *JSONReader) Info() ReplyInfo {
	if r.known == len(r.body) {
		return r.info
	}
	r.info, r.known = ReplyInfo{}, len(r.body)
	v := ValueOf(r.body)
	if !v.Is('{') || r.body[v.End-1] != '}' {
		return r.info
	}
	if o, err := v.Object(); err == nil {
		r.read(&r.info, o)
		r.info.Terminal = true
	}
	return r.info
}

// Str is the string, or empty: replies are never refused, so their readers take
// a field of another type for absent, as Num and Obj do.
func (v Value) Str() string {
	s, _ := v.Text()
	return s
}

// Num is the whole number, or 0.
func (v Value) Num() int64 {
	n, _ := v.Int()
	return n
}

// Obj is the object, or one without members.
func (v Value) Obj() Object {
	o, _ := v.Object()
	return o
}
