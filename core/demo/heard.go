package demo

import (
	"encoding/json"
	"slices"
	"strings"

	"holdfast/core/wire"
)

// A heard is one message of a request as a model reads it, on either wire.
type heard struct {
	role  string
	parts []part
}

// The kinds of parts that matter to the model.
const (
	partText     = "text"
	partThinking = "thinking"
	partRedacted = "redacted_thinking"
	partCall     = "tool_use"
	partResult   = "tool_result"
)

// part is one block of a message. size and sum are of its bytes as a
// provider's cache knows them, cache markers aside; ends says that it carries
// such a marker.
type part struct {
	kind string
	// id is a call's own or that of the call a result answers, name its tool.
	id, name  string
	text      string
	signature string
	piece
}

// readFrame reads everything of a request but its messages, which may be long.
func readFrame(body []byte, into any) error {
	cut, err := wire.Cut(body, listName)
	if err != nil {
		return err
	}
	return json.Unmarshal(slices.Concat(body[:cut.List.Start], []byte("[]"), body[cut.List.End:]), into)
}

// blockPart reads one content block of an Anthropic message.
func blockPart(v wire.Value) part {
	b := v.Obj()
	p := part{kind: b.Get("type").Str(), piece: pieceOf(v)}
	switch p.kind {
	case partText:
		p.text = b.Get("text").Str()
		p.piece.sum = sumOf(b.Get("text").Bytes())
	case partThinking:
		p.text, p.signature = b.Get("thinking").Str(), b.Get("signature").Str()
	case partRedacted:
		p.signature = b.Get("data").Str()
	case partCall:
		p.id, p.name, p.text = b.Get("id").Str(), b.Get("name").Str(), string(b.Get("input").Bytes())
	case partResult:
		p.id, p.text = b.Get("tool_use_id").Str(), plain(b.Get("content"))
	}
	return p
}

// plain is the text of a string or of a list of text blocks.
func plain(v wire.Value) string {
	if v.Is('"') {
		return v.Str()
	}
	var texts []string
	list, _ := v.List()
	for _, b := range list {
		texts = append(texts, b.Obj().Get("text").Str())
	}
	return strings.Join(texts, "\n")
}

// hearAnthropic reads the messages of a request. A lone string is the text
// block it stands for.
func hearAnthropic(body wire.Object) (out []heard) {
	messages, _ := body.Get("messages").List()
	for _, v := range messages {
		m := v.Obj()
		h := heard{role: m.Get("role").Str()}
		content := m.Get("content")
		if content.Is('"') {
			p := part{kind: partText, text: content.Str(), piece: pieceOf(content)}
			h.parts = []part{p}
		}
		blocks, _ := content.List()
		for _, b := range blocks {
			h.parts = append(h.parts, blockPart(b))
		}
		out = append(out, h)
	}
	return out
}

// hearChat reads the messages of a request.
func hearChat(body wire.Object) (out []heard) {
	messages, _ := body.Get("messages").List()
	for _, v := range messages {
		m := v.Obj()
		h := heard{role: m.Get("role").Str()}
		content := m.Get("content")
		kind := partText
		if h.role == "tool" {
			kind = partResult
		}
		if !content.Absent() {
			h.parts = append(h.parts, part{kind: kind, id: m.Get("tool_call_id").Str(), text: plain(content), piece: pieceOf(content)})
		}
		calls, _ := m.Get("tool_calls").List()
		for _, c := range calls {
			f := c.Obj().Get("function").Obj()
			h.parts = append(h.parts, part{kind: partCall, id: c.Obj().Get("id").Str(), name: f.Get("name").Str(),
				text: f.Get("arguments").Str(), piece: pieceOf(c)})
		}
		out = append(out, h)
	}
	return out
}

// latest are the messages behind the last one of the model's own that was not
// a call of a tool of ours alone: what the client said since, and what the
// model did for itself after it.
func latest(all []heard) []heard {
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].role == "assistant" && !all[i].private() {
			return all[i:]
		}
	}
	return all
}

// private reports whether an assistant message holds calls of folding tools
// and no others.
func (h heard) private() bool {
	own := false
	for _, p := range h.parts {
		if p.kind == partCall {
			if !ownTool(p.name) {
				return false
			}
			own = true
		}
	}
	return own
}

// ownTool recognises the folding tools a proxy adds, by the prefix they share.
func ownTool(name string) bool { return strings.HasPrefix(name, "hf_") }
