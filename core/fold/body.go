package fold

import (
	"encoding/json"
	"fmt"
	"strings"

	"holdfast/core/content"
)

// Body is the text of a block. The ledger keeps it by the hash of its stored
// form; a block names it.
type Body struct {
	Topic     string `json:"topic,omitempty"`
	Summary   string `json:"summary"`
	Artifacts string `json:"artifacts,omitempty"`
}

// Text is the stored form and its name.
func (b Body) Text() ([]byte, content.ID) {
	text, err := json.Marshal(b)
	if err != nil {
		panic("fold: internal error: body does not marshal: " + err.Error())
	}
	return text, content.Of(text)
}

// OpenBody reads a stored body; one that is not what the block names is an
// error.
func OpenBody(text []byte, id content.ID) (Body, error) {
	if content.Of(text) != id {
		return Body{}, fmt.Errorf("fold: stored body does not match its name")
	}
	var b Body
	if err := json.Unmarshal(text, &b); err != nil {
		return Body{}, fmt.Errorf("fold: stored body: %w", err)
	}
	return b, nil
}

// CarrierText is what stands in the view in place of a block's elements. It
// depends on the block's birth alone, so it never changes.
func CarrierText(b *Block, body Body) string {
	var s strings.Builder
	head := carrierHead
	if b.Elided {
		head = elisionHead
	}
	fmt.Fprintf(&s, head, blockRef(b.ID), span(b.From, b.To), comma(b.Count))
	if body.Topic != "" {
		fmt.Fprintf(&s, carrierTopic, body.Topic)
	}
	s.WriteString("\n" + strings.TrimSpace(body.Summary) + "\n")
	if body.Artifacts != "" {
		s.WriteString(carrierDone + strings.TrimSpace(body.Artifacts) + "\n")
	}
	fmt.Fprintf(&s, carrierEnd, blockRef(b.ID))
	return s.String()
}

// Shorten is the view of a tool result with an overlay: its head and its tail
// around a marker. ref names the element.
func Shorten(text string, o Shortened, ref int64) string {
	r := []rune(text)
	if len(r) <= o.Head+o.Tail {
		return text
	}
	cut := len(r) - o.Head - o.Tail
	return string(r[:o.Head]) + fmt.Sprintf(overlayMarker, comma(cut), Ref{Number: ref}.String()) + string(r[len(r)-o.Tail:])
}
