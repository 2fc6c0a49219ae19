package local

import (
	"bytes"

	"holdfast/core/wire"
)

// extends reports whether a chat body only goes on where another stopped: the
// same frame byte for byte, and the same messages with more behind them. Such a
// body needs no rendering to know where it belongs.
func extends(before, body []byte) bool {
	if len(before) == 0 || len(before) > len(body) {
		return false
	}
	a, ok := split(before)
	if !ok {
		return false
	}
	b, ok := split(body)
	if !ok || !bytes.Equal(a.head, b.head) || !bytes.Equal(a.foot, b.foot) || len(a.list) == 0 {
		return false
	}
	rest, ok := bytes.CutPrefix(b.list, a.list)
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return ok && (len(rest) == 0 || rest[0] == ',')
}

// parts are a chat body around the inside of its messages.
type parts struct{ head, list, foot []byte }

func split(body []byte) (p parts, ok bool) {
	o, err := wire.ValueOf(body).Object()
	if err != nil {
		return p, false
	}
	v := o.Get("messages")
	if !v.Is('[') {
		return p, false
	}
	inside := bytes.TrimSpace(body[v.Start+1 : v.End-1])
	return parts{body[:v.Start], inside, body[v.End:]}, true
}
