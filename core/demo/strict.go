package demo

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The judgement of a strict provider: what it would refuse is refused, with its
// status 400. It reads requests with eyes of its own, so that a mistake in the
// codecs does not pass here as well.

// rules are what one provider insists on.
type rules struct {
	// together wants all results of a turn at the head of the next message.
	together bool
	// alternate refuses two turns of one role behind each other; calls and their
	// results are part of the model's turn.
	alternate bool
}

// Alternation says on which wires a strict model refuses two turns of one role
// behind each other.
type Alternation int

const (
	// AlternateChat is what the templates of local servers want, and Anthropic
	// does not.
	AlternateChat Alternation = iota
	// AlternateNowhere is OpenAI's own and Anthropic's way.
	AlternateNowhere
	// AlternateEverywhere is what some that speak their wires want.
	AlternateEverywhere
)

// of are a wire's rules under an Alternation.
func (a Alternation) of(r rules) rules {
	if a != AlternateChat {
		r.alternate = a == AlternateEverywhere
	}
	return r
}

// signature is what a provider signs reasoning with. It holds for this text at
// this place of its message, in front of what followed it, and nowhere else.
func signature(text string, place int, next string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{"demo", text, strconv.Itoa(place), next}, "\x00")))
	return base64.StdEncoding.EncodeToString(sum[:24])
}

// follows names a part for the signature of the one in front of it.
func follows(p part) string {
	switch p.kind {
	case partCall:
		return p.kind + p.id
	case partRedacted:
		return p.kind + p.signature
	}
	return p.kind + p.text
}

// signed reports whether the reasoning at a place of a message is as it was
// signed.
func (h heard) signed(place int) bool {
	next := ""
	if place+1 < len(h.parts) {
		next = follows(h.parts[place+1])
	}
	p := h.parts[place]
	return p.signature == signature(p.text, place, next)
}

// redactedMark begins reasoning that is only given encrypted.
const redactedMark = "red:"

// bench judges the messages of one request, in order.
type bench struct {
	rules
	// open are calls without a result yet, seen all ids.
	open, seen map[string]bool
	last       string
}

// judge returns why a provider would refuse the messages.
func (r rules) judge(messages []heard) error {
	b := bench{rules: r, open: map[string]bool{}, seen: map[string]bool{}}
	for i, h := range messages {
		if err := b.message(h); err != nil {
			return fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	switch {
	case b.last == "":
		return fmt.Errorf("messages: at least one message of the user is needed")
	case len(b.open) > 0:
		return fmt.Errorf("messages: %d calls have no result", len(b.open))
	}
	return nil
}

func (b *bench) message(h heard) error {
	if err := b.role(h); err != nil {
		return err
	}
	if len(h.parts) == 0 && h.role != "system" {
		return fmt.Errorf("the content is empty")
	}
	waiting := len(b.open) > 0
	for i, p := range h.parts {
		err := b.part(h.role, p, waiting)
		if p.kind == partThinking && !h.signed(i) {
			err = fmt.Errorf("invalid signature in a thinking block")
		}
		if err != nil {
			return fmt.Errorf("content.%d: %w", i, err)
		}
	}
	if waiting && len(b.open) > 0 && (b.together || h.role != "tool") {
		return fmt.Errorf("%d calls of the message before have no result here", len(b.open))
	}
	return nil
}

// role wants known roles, the user first, and turns where the rules do.
func (b *bench) role(h heard) error {
	switch {
	case h.role == "system" && b.together && b.last == "user": // instructions between the turns, as Claude Code sends
		return nil
	case h.role == "system" || h.role == "developer":
		if b.together || b.last != "" {
			return fmt.Errorf("a %s message has no place here", h.role)
		}
		return nil
	case h.role == "tool" && !b.together:
		return nil
	case h.role != "user" && h.role != "assistant":
		return fmt.Errorf("role %q has no place here", h.role)
	case b.last == "" && h.role != "user":
		return fmt.Errorf("the first message must be the user's")
	case !b.together && h.calls():
		return nil
	case b.alternate && h.role == b.last:
		return fmt.Errorf("roles must alternate, but two turns of the %s follow each other", h.role)
	}
	b.last = h.role
	return nil
}

func (b *bench) part(role string, p part, waiting bool) error {
	switch p.kind {
	case partResult:
		if !b.open[p.id] {
			return fmt.Errorf("a result of %q, which the message before did not call", p.id)
		}
		delete(b.open, p.id)
		return nil
	case partCall:
		return b.call(role, p)
	case partRedacted:
		if raw, err := base64.StdEncoding.DecodeString(p.signature); err != nil || !strings.HasPrefix(string(raw), redactedMark) {
			return fmt.Errorf("invalid data in a redacted thinking block")
		}
	case partText:
		if p.text == "" && b.together {
			return fmt.Errorf("a text block must not be empty")
		}
	}
	if waiting && len(b.open) > 0 {
		return fmt.Errorf("%s before the results of the calls", p.kind)
	}
	return nil
}

// calls reports whether a message holds calls.
func (h heard) calls() bool {
	return slices.ContainsFunc(h.parts, func(p part) bool { return p.kind == partCall })
}

func (b *bench) call(role string, p part) error {
	switch {
	case role != "assistant":
		return fmt.Errorf("a call outside the model's messages")
	case p.id == "" || b.seen[p.id]:
		return fmt.Errorf("call ids must be unique, %q is not", p.id)
	}
	b.seen[p.id], b.open[p.id] = true, true
	return nil
}
