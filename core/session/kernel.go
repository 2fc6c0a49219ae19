package session

import (
	"errors"

	"holdfast/core/chat"
	"holdfast/core/fold"
)

// ErrAddress: an event of the kernel does not map to exactly one set of rows
// (gate R2). Nothing was planned.
var ErrAddress = errors.New("session: an event does not name rows that are there")

// Kernel is what the kernel made of a turn or a tool call. Events carry the
// bodies of new blocks.
type Kernel struct {
	State  fold.State
	Rhythm fold.Rhythm
	Events []fold.Event
}

// Undescribed are the elements the kernel will be asked about that Meta lacks:
// after a load of a branch that offers tools, all of them. The chain decodes
// their stored bytes once and puts the Describe of each into Meta.
func (st *State) Undescribed() []int64 { return nil }

// Describe is what the kernel knows of a stored element; m is its stored bytes
// decoded.
func Describe(e *Element, m *chat.Message) fold.Element { return fold.Element{} }

// Elements is the kernel's list of this plan: the inbound elements in order and,
// while rows are kept, those the client removed at their places. Fold with what
// the kernel makes of it.
func (p *Plan) Elements() []fold.Element { return nil }

// Kernel is the kernel's state after alignment: what Rewrite goes on from.
func (p *Plan) Kernel() fold.State { return p.Next.Kernel }

// Fold adds the kernel's changes to the plan: rows flipped, carriers written,
// element states, coverage, bodies, and the kernel's state in the head. Call it
// once, before the commit. On ErrAddress the plan is as it was: the turn takes
// the full path without the events.
func (p *Plan) Fold(k Kernel) error { return nil }

// MakeFold plans the commit of one tool call between turns. It has a
// checkpoint of its own with the cause, is fully synced, and keeps outcome for a
// call that is repeated. st is the branch as committed; rows says whether
// snapshot rows are kept. Without events only the rhythm and the outcome are
// kept.
func MakeFold(st *State, k Kernel, f FoldCall) (*Plan, error) { return nil, nil }

// FoldCall is the call behind a fold.
type FoldCall struct {
	Now     int64  // unix ms
	Cause   string // cause_id
	Outcome []byte // what the model was told
	Rows    bool
}

// Inherit takes over the folds of another ledger whose elements are all in the
// list of this plan, in order and not folded already. Call it before the kernel
// rewrites, best donor first, for a plan that creates its branch.
func (p *Plan) Inherit(donor *State) error { return nil }

// ElementsOf is the kernel's list of a committed state; see Plan.Elements.
func (st *State) Elements() []fold.Element { return nil }

func describe(list []Elem, meta map[int64]fold.Element) []fold.Element { return nil }
