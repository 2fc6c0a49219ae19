package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"holdfast/core/guard"
)

const (
	// clientQueue is how many events one reader may be behind; a page that
	// sleeps longer reads the state anew instead.
	clientQueue = 256
	// maxClients bounds the readers; each holds a connection and a queue.
	maxClients = 64
	// heartbeat keeps connections through sleepy middle boxes and finds dead ones.
	heartbeat = 15 * time.Second
	// writeTimeout is how long one event may take to leave.
	writeTimeout = 10 * time.Second
)

// Hub hands events to every reader of the stream. A reader that falls behind
// is dropped and told so; publishing never waits.
type Hub struct {
	mu      sync.Mutex // guards the rest
	clients map[*reader]struct{}
	closed  bool
}

// reader is one follower; the hub writes to and closes queue under its mutex.
type reader struct{ queue chan []byte }

// NewHub makes a hub without readers.
func NewHub() *Hub { return &Hub{clients: map[*reader]struct{}{}} }

// Publish sends one event: a name of the contract and its object.
func (h *Hub) Publish(name string, object any) {
	data, err := json.Marshal(object)
	if err != nil {
		panic("api: internal error: an event does not encode: " + err.Error())
	}
	msg := fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, data)
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		select {
		case c.queue <- msg:
		default:
			h.drop(c)
		}
	}
}

// drop ends a reader; the caller holds mu.
func (h *Hub) drop(c *reader) {
	delete(h.clients, c)
	close(c.queue)
}

// Close ends every stream and refuses new ones.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.clients {
		h.drop(c)
	}
}

func (h *Hub) join() (*reader, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.clients) >= maxClients {
		return nil, false
	}
	c := &reader{make(chan []byte, clientQueue)}
	h.clients[c] = struct{}{}
	return c, true
}

// leave takes a reader out; true when it was still in, so it left by itself.
func (h *Hub) leave(c *reader) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, in := h.clients[c]; !in {
		return false
	}
	h.drop(c)
	return true
}

// ended is the last event of a stream the hub ends.
const ended = "event: end\ndata: {\"hint\":\"The stream ended because this reader fell behind or Holdfast is stopping; read the state anew and reconnect.\"}\n\n"

func (a *API) events(w http.ResponseWriter, r *http.Request) error {
	c, ok := a.Hub.join()
	if !ok {
		return &guard.Problem{Status: http.StatusServiceUnavailable, Code: "too_many_readers",
			Title: "Too many readers follow the events, or Holdfast is stopping.", Hint: "Close a page and try again."}
	}
	defer a.Hub.leave(c)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	out := &stream{w: w, rc: http.NewResponseController(w)}
	out.send([]byte(": hello\n\n"))
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for out.err == nil {
		select {
		case msg, in := <-c.queue:
			if !in {
				out.send([]byte(ended))
				return nil
			}
			out.send(msg)
		case <-tick.C:
			out.send([]byte(": still here\n\n"))
		case <-r.Context().Done():
			return nil
		}
	}
	return nil
}

// stream writes events; the first failure ends it.
type stream struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	err error
}

func (s *stream) send(msg []byte) {
	if s.err != nil {
		return
	}
	// Not every writer has deadlines (tests); the reader is bounded then by its
	// queue alone.
	s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, s.err = s.w.Write(msg); s.err == nil {
		s.err = s.rc.Flush()
	}
}
