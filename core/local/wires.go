package local

import (
	"net/http"
	"strings"

	"holdfast/core/wire"
)

// kind is what a request is, by method and path.
type kind int

const (
	otherKind kind = iota
	chatKind
	messagesKind
	countKind
)

func kindOf(r *http.Request) kind {
	path := strings.TrimRight(r.URL.Path, "/")
	switch {
	case r.Method != http.MethodPost:
	case strings.HasSuffix(path, "/chat/completions"):
		return chatKind
	case strings.HasSuffix(path, "/messages/count_tokens"):
		return countKind
	case strings.HasSuffix(path, "/messages"):
		return messagesKind
	}
	return otherKind
}

// request is a model call in the engine's wire.
type request struct {
	body   []byte
	stream bool
}

// clientWire is how a client speaks: what its requests ask in the engine's wire,
// and what the engine's replies are in the client's.
type clientWire interface {
	request(body []byte) (request, error)
	// stream turns the events of a reply.
	stream(body []byte) turner
	// whole turns a reply that came in one piece.
	whole(reply []byte) ([]byte, error)
	// failure turns an error of the engine's, or of ours.
	failure(status int, reply []byte) []byte
	refusal(status int, text string) []byte
}

// chatWire is the engine's own: what the client sent is what the engine gets.
type chatWire struct{}

func (chatWire) request(body []byte) (request, error) {
	o, err := wire.ValueOf(body).Object()
	if err != nil {
		return request{}, unfitf("the request is not a JSON object")
	}
	stream, _ := o.Get("stream").Bool() // anything but true is no stream
	return request{body, stream}, nil
}

func (chatWire) stream(body []byte) turner {
	asked, _ := wire.ValueOf(body).Obj().Get("return_progress").Bool()
	return chatStream{progress: asked}
}

func (chatWire) whole(reply []byte) ([]byte, error) { return reply, nil }

func (chatWire) failure(_ int, reply []byte) []byte { return reply }

func (chatWire) refusal(status int, text string) []byte {
	b, _ := marshal(map[string]any{"error": map[string]any{"code": status, "message": text, "type": errorType(status)}})
	return b // always encodes
}

// messagesWire is Anthropic's.
type messagesWire struct{}

func (messagesWire) request(body []byte) (request, error) {
	chat, stream, err := toChat(body)
	return request{chat, stream}, err
}

func (messagesWire) stream([]byte) turner { return &messageStream{} }

func (messagesWire) whole(reply []byte) ([]byte, error) { return fromChat(reply) }

func (messagesWire) failure(status int, reply []byte) []byte {
	return anthropicError(status, errorText(reply))
}

func (messagesWire) refusal(status int, text string) []byte { return anthropicError(status, text) }
