package demo

import (
	"bytes"
	"fmt"

	"holdfast/core/wire"
)

// listName is the member that holds the messages, on both wires.
const listName = "messages"

// A Cut is where a fold began, as the ledger has it.
type Cut struct {
	// Place is the first folded element of what the client sent.
	Place int
	// Taken says that a fold had this element before, so that its own bytes stand
	// nowhere but in what the model looked up since.
	Taken bool
	// Behind is the fold that the element before it is in, "" for none.
	Behind string
	// Strict says that on this route a summary joins the message before it: the
	// last quotes and brackets of that one move.
	Strict bool
}

// Kept is how much of a request stands unchanged before a fold, in bytes.
// before and after are what reached the model just before the fold and just
// after it, inbound what the client sent. It is an error when anything before
// the first folded element differs.
func (c Cut) Kept(before, after, inbound []byte) (int, error) {
	at, err := c.touched(before, inbound)
	if err != nil {
		return 0, err
	}
	want := before[:at]
	if c.Strict {
		want = bytes.TrimRight(want, ` ,"]}`)
	}
	same := 0
	for same < len(after) && same < len(want) && after[same] == want[same] {
		same++
	}
	if same < len(want) {
		return same, fmt.Errorf("the requests differ at byte %d, before the fold at %d", same, len(want))
	}
	return same, nil
}

// touched is where in a request the first folded element begins: where its own
// bytes stand, or behind those of the element before it, or behind the message
// with the summary that one is in.
func (c Cut) touched(before, inbound []byte) (int, error) {
	body, err := wire.Cut(inbound, listName)
	if err != nil {
		return 0, err
	}
	if c.Place < 1 || c.Place >= len(body.Elements) {
		return 0, fmt.Errorf("the client's %d messages have no place %d to fold from", len(body.Elements), c.Place)
	}
	if at, _ := c.stands(before, body.Element(c.Place)); at >= 0 && !c.Taken {
		return at, nil
	}
	if at, n := c.stands(before, body.Element(c.Place-1)); at >= 0 {
		return at + n, nil
	}
	sent, err := wire.Cut(before, listName)
	if err != nil {
		return 0, err
	}
	for i := range sent.Elements {
		if c.Behind != "" && bytes.Contains(sent.Element(i), []byte("[fold "+c.Behind+" ")) {
			return sent.Elements[i].End, nil
		}
	}
	return 0, fmt.Errorf("the place of message %d in the request cannot be told", c.Place+1)
}

// uniqueText is how long a text must be to name its message.
const uniqueText = 40

// stands finds an element in a request, and how many bytes of it: all, or on a
// strict route, where messages are joined, the text of it.
func (c Cut) stands(request, elem []byte) (at, n int) {
	if at := bytes.Index(request, elem); at >= 0 || !c.Strict {
		return at, len(elem)
	}
	content := wire.ValueOf(elem).Obj().Get("content")
	if !content.Is('"') || content.Len() < uniqueText {
		return -1, 0
	}
	text := content.Bytes()[1 : content.Len()-1]
	return bytes.Index(request, text), len(text)
}
