// Package sse splits an event stream into events as its bytes pass, and carries
// the replies of the wires: streams of events, and plain JSON bodies.
//
// It reads what the event-stream format allows: lines ended by CR, LF or both,
// data over several lines, comments, a byte order mark, and writes that end at
// any byte. Event ids and retry hints are left to the client they are for.
package sse

import "bytes"

// MaxEvent is the largest event that is kept, in bytes of data or of one line.
// An event past it is passed over; the stream goes on with the next one.
const MaxEvent = 16 << 20

// Event is one event. Data is valid only during the call it is handed to.
type Event struct {
	// Name is the event's type; empty when the stream gives none.
	Name string
	Data []byte
}

// Splitter is an io.Writer that hands each complete event to its function. The
// zero Splitter is not usable; use New.
type Splitter struct {
	emit func(Event)
	// line holds the head of a line that a write left unfinished.
	line []byte
	ev   event
	// afterCR says that a line has just ended with CR, so LF belongs to it.
	afterCR bool
	started bool
}

// event is the event being read.
type event struct {
	name string
	data []byte
	// borrowed says that data is part of the caller's buffer.
	borrowed bool
	// lines counts data lines; an event without any is none.
	lines int
	// skip says that the event passed MaxEvent.
	skip bool
}

// New returns a Splitter that calls emit for each event, in order, from within
// Write.
func New(emit func(Event)) *Splitter { return &Splitter{emit: emit} }

// Write takes the next bytes of the stream. It never fails and keeps nothing
// of p.
func (s *Splitter) Write(p []byte) (int, error) {
	n := len(p)
	if s.afterCR && n > 0 {
		s.afterCR = false
		if p[0] == '\n' {
			p = p[1:]
		}
	}
	lf := -1 // offset of the next LF in p, found once and not per line
	for len(p) > 0 {
		if lf < 0 {
			lf = index(p, '\n')
		}
		end := bytes.IndexByte(p[:lf], '\r')
		if end < 0 {
			end = lf
		}
		if end == len(p) {
			s.hold(p)
			break
		}
		size := s.ending(p, end)
		s.end(p[:end])
		p = p[end+size:]
		lf -= end + size
	}
	s.ev.own()
	return n, nil
}

// index is the offset of c in p, len(p) when there is none.
func index(p []byte, c byte) int {
	if i := bytes.IndexByte(p, c); i >= 0 {
		return i
	}
	return len(p)
}

// ending is the length of the line ending at p[end].
func (s *Splitter) ending(p []byte, end int) int {
	switch {
	case p[end] == '\n':
		return 1
	case end+1 == len(p):
		s.afterCR = true
		return 1
	case p[end+1] == '\n':
		return 2
	}
	return 1
}

// hold keeps the head of an unfinished line. Of a line that is too long only
// the fact is kept, and one byte, so that it does not look empty.
func (s *Splitter) hold(p []byte) {
	if len(s.line)+len(p) > MaxEvent {
		s.ev.skip = true
	}
	if s.ev.skip {
		s.line = append(s.line[:0], ':')
		return
	}
	s.line = append(s.line, p...)
}

// end takes the rest of a line, up to its ending.
func (s *Splitter) end(rest []byte) {
	if len(s.line) == 0 {
		s.take(rest, true)
		return
	}
	s.hold(rest)
	line := s.line
	s.line = nil // the event's data goes on pointing at it
	s.take(line, false)
}

var mark = []byte("\xEF\xBB\xBF")

// take reads one whole line.
func (s *Splitter) take(line []byte, borrowed bool) {
	if !s.started {
		s.started = true
		line = bytes.TrimPrefix(line, mark)
	}
	switch {
	case len(line) == 0:
		s.dispatch()
		return
	case len(line) > MaxEvent:
		s.ev.skip = true
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		s.ev.name = string(value)
	case "data":
		s.ev.add(value, borrowed)
	}
}

func (s *Splitter) dispatch() {
	ev := s.ev
	s.ev = event{}
	if ev.lines > 0 && !ev.skip {
		s.emit(Event{Name: ev.name, Data: ev.data})
	}
}

func (e *event) add(value []byte, borrowed bool) {
	if e.skip || len(e.data)+len(value) > MaxEvent {
		e.skip, e.data = true, nil
		return
	}
	e.lines++
	if e.lines == 1 {
		e.data, e.borrowed = value, borrowed
		return
	}
	e.own()
	e.data = append(append(e.data, '\n'), value...)
}

// own copies borrowed data.
func (e *event) own() {
	if e.borrowed {
		e.data, e.borrowed = bytes.Clone(e.data), false
	}
}

// Pending is the event that the stream would end with if it ended here: some
// servers leave out the last blank line, or even the last line's ending. It
// changes nothing; ok is false when nothing is pending.
func (s *Splitter) Pending() (ev Event, ok bool) {
	t := Splitter{started: s.started, ev: s.ev, emit: func(e Event) { ev, ok = e, true }}
	t.ev.data, t.ev.borrowed = bytes.Clone(s.ev.data), false
	if len(s.line) > 0 {
		t.take(s.line, false)
	}
	t.dispatch()
	return ev, ok
}
