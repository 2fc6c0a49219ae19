package sse

import "bytes"

// Cutter cuts a stream into the bytes of whole events, so that some can be left
// out or changed: all that it hands on, put together again, is the stream. The
// zero Cutter is not usable; use NewCutter.
type Cutter struct {
	emit  func(raw []byte, ev Event)
	split *Splitter
	// ev is the event that split found in the bytes being handed on.
	ev Event
	// head holds the bytes of an event that a write left unfinished.
	head []byte
	// text says that the line being read has bytes, afterCR that the one before
	// ended with CR, so that LF belongs to it.
	text, afterCR bool
}

// NewCutter returns a Cutter that calls emit, from within Write and Close, for
// each event with the bytes it came in, blank line included. Comments, blank
// lines and what is too long come with an event without data. raw and the event
// are only valid during the call.
func NewCutter(emit func(raw []byte, ev Event)) *Cutter {
	c := &Cutter{emit: emit}
	c.split = New(func(ev Event) { c.ev = ev })
	return c
}

// Write takes the next bytes of the stream.
func (c *Cutter) Write(p []byte) {
	for len(p) > 0 {
		end, whole := c.boundary(p)
		switch {
		case !whole && len(c.head)+end <= MaxEvent:
			c.head = append(c.head, p...)
		case len(c.head) == 0:
			c.hand(p[:end])
		default:
			raw := append(c.head, p[:end]...)
			c.head = nil
			c.hand(raw)
		}
		p = p[end:]
	}
}

// boundary is where the first event that ends in p ends: after a blank line.
func (c *Cutter) boundary(p []byte) (end int, whole bool) {
	for i, b := range p {
		switch {
		case b == '\n' && c.afterCR:
			c.afterCR = false
		case b != '\n' && b != '\r':
			c.text, c.afterCR = true, false
		case c.text:
			c.text, c.afterCR = false, b == '\r'
		default:
			c.afterCR = b == '\r'
			if c.afterCR && i+1 < len(p) && p[i+1] == '\n' {
				c.afterCR = false
				i++
			}
			return i + 1, true
		}
	}
	return len(p), false
}

func (c *Cutter) hand(raw []byte) {
	c.ev = Event{}
	c.split.Write(raw)
	c.emit(raw, c.ev)
}

// Close hands on what the stream ended with: some servers leave the last blank
// line out.
func (c *Cutter) Close() {
	if len(c.head) == 0 {
		return
	}
	raw := c.head
	c.head = nil
	c.split.Write(raw)
	ev, _ := c.split.Pending()
	c.emit(raw, ev)
}

// AppendEvent writes an event, without the name if it has none.
func AppendEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		dst = append(append(append(dst, "data: "...), line...), '\n')
	}
	return append(dst, '\n')
}

// Whole says whether the bytes of an event end with its blank line.
func Whole(raw []byte) bool {
	rest := bytes.TrimSuffix(raw, []byte("\n"))
	rest = bytes.TrimSuffix(rest, []byte("\r"))
	if len(rest) == len(raw) {
		return false
	}
	return len(rest) == 0 || rest[len(rest)-1] == '\n' || rest[len(rest)-1] == '\r'
}
