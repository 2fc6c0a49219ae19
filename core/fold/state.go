package fold

import (
	"encoding/json"
	"fmt"
	"slices"

	"holdfast/core/content"
	"holdfast/core/usage"
)

// StateVersion is the version of the stored kernel state this code writes once
// anything is folded, marked or armed. Until then it is version 1, which knew
// nothing of that and is read by older programs too.
const (
	StateVersion = 2
	plainVersion = 1
)

// State is the part of the kernel's memory that a checkpoint seals. It holds no
// texts: a block names its body by hash. Every function that changes a State
// returns a new one and leaves the slices of the old one alone.
type State struct {
	// Version is the layout of this value; a newer one is not read.
	Version int `json:"v"`
	// Structure counts the changes to what is folded; a checkpoint that names
	// another number is not current.
	Structure int64 `json:"structure"`
	// LastBlock is the highest block number ever given; they are never reused.
	LastBlock int64       `json:"last_block,omitempty"`
	Blocks    []Block     `json:"blocks,omitempty"`
	Overlays  []Shortened `json:"overlays,omitempty"`
	// Hidden are elements left out of the view, their results with them.
	Hidden Numbers `json:"hidden,omitempty"`
	// Kept are the durable protect marks of the user.
	Kept Numbers `json:"kept,omitempty"`
	// Armed says that our tools were offered once and so always are; Suffix is
	// what their names end in since a client's tool had one of them.
	Armed  bool   `json:"armed,omitempty"`
	Suffix string `json:"suffix,omitempty"`
}

// Block is one fold.
type Block struct {
	ID   int64 `json:"id"`
	Tier int   `json:"tier"`
	// Elems are the elements folded by this block itself, in list order; those of
	// its children come on top.
	Elems Numbers `json:"elems,omitempty"`
	// Thoughts are the elements among them that are reasoning alone: a block
	// lives on without them.
	Thoughts Numbers `json:"thoughts,omitempty"`
	// Children are the blocks it consumed.
	Children []int64 `json:"children,omitempty"`
	// Parent is the block that consumed it, 0 for none.
	Parent int64      `json:"parent,omitempty"`
	Status BlockState `json:"status,omitempty"`
	// From and To are the refs of its ends, for people and models.
	From  string `json:"from"`
	To    string `json:"to"`
	Topic string `json:"topic,omitempty"`
	// Count is the number of elements it stands for, those of its children too.
	Count int `json:"count"`
	// Body names the text: see Body.
	Body content.ID `json:"-"`
	// Elided says that no model wrote it: it stands for what had to go.
	Elided bool `json:"elided,omitempty"`
	// Tokens are those of the elements and carriers it replaced; Carrier what
	// stands in their place.
	Tokens    usage.Tokens `json:"tokens"`
	Carrier   usage.Tokens `json:"carrier"`
	Projected usage.Bill   `json:"projected,omitzero"`
	// Gone says that the originals were purged.
	Gone bool `json:"gone,omitempty"`
}

// BlockState says whether a block stands in the view.
type BlockState string

// The states of a block.
const (
	Active   BlockState = ""
	Consumed BlockState = "consumed" // a block of a higher tier holds it
	Away     BlockState = "away"     // the client went back into it; it returns with its elements
	Dead     BlockState = "dead"     // an element of it is gone for good
)

// Shortened is the overlay of one tool result in the view: so many leading and
// trailing characters are kept.
type Shortened struct {
	Elem int64 `json:"elem"`
	Core int   `json:"core"`
	Head int   `json:"head"`
	Tail int   `json:"tail"`
	// Saved is what it takes off the prompt.
	Saved usage.Tokens `json:"saved"`
}

// NewState is the state of a conversation in which nothing was folded.
func NewState() State { return State{Version: plainVersion} }

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
	if s.Version < 1 || s.Version > StateVersion {
		return State{}, fmt.Errorf("fold: stored state has version %d, this program reads %d", s.Version, StateVersion)
	}
	return s, nil
}

// blockJSON spells the body's hash, which has no JSON form of its own.
type blockJSON struct {
	blockFields
	Body string `json:"body"`
}

type blockFields Block

// MarshalJSON writes a block with its body's hash.
func (b Block) MarshalJSON() ([]byte, error) {
	return json.Marshal(blockJSON{blockFields(b), b.Body.String()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (b *Block) UnmarshalJSON(text []byte) error {
	var j blockJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	id, err := content.Parse(j.Body)
	if err != nil {
		return err
	}
	*b = Block(j.blockFields)
	b.Body = id
	return nil
}

// Block returns a block by number, nil when there is none.
func (s *State) Block(id int64) *Block {
	i, found := slices.BinarySearchFunc(s.Blocks, id, func(b Block, id int64) int { return int(b.ID - id) })
	if !found {
		return nil
	}
	return &s.Blocks[i]
}

// Effective are all elements a block stands for: its own and its children's.
func (s *State) Effective(id int64) Numbers {
	b := s.Block(id)
	if b == nil {
		return nil
	}
	all := slices.Clone(b.Elems)
	for _, c := range b.Children {
		all = append(all, s.Effective(c)...)
	}
	return all
}

// purged are the blocks in and under one whose originals were deleted, the
// topmost of each branch.
func (s *State) purged(id int64) []*Block {
	b := s.Block(id)
	if b == nil || b.Gone {
		return slices.DeleteFunc([]*Block{b}, func(b *Block) bool { return b == nil })
	}
	var out []*Block
	for _, c := range b.Children {
		out = append(out, s.purged(c)...)
	}
	return out
}

// ancestor is the active block that holds a consumed one, nil when none does.
func (s *State) ancestor(b *Block) *Block {
	for b != nil && b.Status == Consumed {
		b = s.Block(b.Parent)
	}
	if b == nil || b.Status != Active {
		return nil
	}
	return b
}

// changed is a copy of s, free to be changed, with the next structure number.
func (s State) changed() State {
	s.Version = StateVersion
	s.Structure++
	s.Blocks = slices.Clone(s.Blocks)
	s.Overlays = slices.Clone(s.Overlays)
	s.Hidden = slices.Clone(s.Hidden)
	s.Kept = slices.Clone(s.Kept)
	return s
}

// add gives b the next number and puts it in place; its children become its.
func (s *State) add(b Block) int64 {
	s.LastBlock++
	b.ID = s.LastBlock
	s.Blocks = append(s.Blocks, b)
	for _, c := range b.Children {
		child := s.Block(c)
		child.Status, child.Parent = Consumed, b.ID
	}
	return b.ID
}

// Keep sets or lifts the durable protect mark of elements.
func Keep(st State, ns []int64, on bool) State {
	next := st.changed()
	next.Kept = slices.DeleteFunc(next.Kept, func(n int64) bool { return slices.Contains(ns, n) })
	if on {
		next.Kept = append(next.Kept, ns...)
		slices.Sort(next.Kept)
	}
	return next
}

// Arm decides whether our tools are offered: from the first request on that
// offers any, and then always, under names no tool of the client's has.
func Arm(st State, offers bool, theirs []string) State {
	next := st
	next.Armed = st.Armed || offers
	for i := 2; next.Armed && clashes(next.Suffix, theirs); i++ {
		next.Suffix = fmt.Sprintf("_%d", i)
	}
	if next.Armed == st.Armed && next.Suffix == st.Suffix {
		return st
	}
	changed := st.changed()
	changed.Armed, changed.Suffix = next.Armed, next.Suffix
	return changed
}

func clashes(suffix string, theirs []string) bool {
	for _, name := range toolNames() {
		if slices.Contains(theirs, name+suffix) {
			return true
		}
	}
	return false
}
