// Package fold is the compression kernel: values in, values out. It has no
// clock, context, log, file or global; time and token counts are arguments, and
// its state is plain data that round-trips through JSON.
//
// This version is the identity: it folds nothing, so that exactness is proven
// before anything is changed. Its signature is the one the folding kernel
// keeps, and every event it will emit can already be stored and replayed.
package fold

import (
	"encoding/json"
	"fmt"

	"holdfast/core/content"
	"holdfast/core/usage"
)

// StateVersion is the version of the stored kernel state this code writes.
const StateVersion = 1

// State is the part of the kernel's memory that a checkpoint seals: blocks,
// overlays, hides and protect marks. The identity kernel keeps none.
type State struct {
	// Version is the layout of this value; a newer one is not read.
	Version int `json:"v"`
	// Structure counts the changes to what is folded; a checkpoint that names
	// another number is not current.
	Structure int64 `json:"structure"`
}

// NewState is the state of a conversation in which nothing was folded.
func NewState() State { return State{Version: StateVersion} }

// Seal returns the canonical JSON of s and its checksum.
func (s State) Seal() ([]byte, content.ID) {
	b, err := json.Marshal(s)
	if err != nil {
		panic("fold: internal error: state does not marshal: " + err.Error())
	}
	return b, content.Of(b)
}

// OpenState reads a sealed state back; a checksum or version that does not fit
// is an error, never a guess.
func OpenState(b []byte, sum content.ID) (State, error) {
	if content.Of(b) != sum {
		return State{}, fmt.Errorf("fold: stored state does not match its checksum")
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, fmt.Errorf("fold: stored state: %w", err)
	}
	if s.Version != StateVersion {
		return State{}, fmt.Errorf("fold: stored state has version %d, this program reads %d", s.Version, StateVersion)
	}
	return s, nil
}

// Element is what the kernel sees of one element.
type Element struct {
	// N is the ledger number.
	N int64
	// Tokens is an estimate until the upstream reported.
	Tokens usage.Tokens
}

// Limits are the window figures of the model in use, in tokens.
type Limits struct {
	Window usage.Tokens
}

// EventKind is one of the twelve structural changes a ledger knows.
type EventKind string

// The event kinds of design section 3. Alignment emits append, rewind,
// reactivate, replace and restamp; the kernel emits the others.
const (
	Append     EventKind = "append"
	Folded     EventKind = "fold"
	Unfold     EventKind = "unfold"
	Hide       EventKind = "hide"
	Overlay    EventKind = "overlay"
	Replace    EventKind = "replace"
	Rewind     EventKind = "rewind"
	Reactivate EventKind = "reactivate"
	Inherit    EventKind = "inherit"
	Restamp    EventKind = "restamp"
	Archive    EventKind = "archive"
	Purge      EventKind = "purge"
)

// Event is one structural change, addressed by element numbers alone, with the
// witness that justifies it. It is stored with the checkpoint.
type Event struct {
	Kind  EventKind `json:"kind"`
	Elems []int64   `json:"elems,omitempty"`
	// Old are the elements replaced, in step with Elems.
	Old []int64 `json:"old,omitempty"`
	// After is the last kept element before the change; the witness of appends,
	// rewinds and reactivations.
	After int64 `json:"after,omitempty"`
	// Keys are the element keys the event was decided on, in step with Elems.
	Keys []string `json:"keys,omitempty"`
}

// Nudge asks the model to fold. The identity kernel never asks.
type Nudge struct {
	Text string
}

// Rewrite decides what the model sees. The identity kernel returns the elements
// and the state it was given.
func Rewrite(elements []Element, st State, _ Limits, _ usage.Usage) (view []Element, next State, events []Event, nudge *Nudge) {
	return elements, st, nil, nil
}
