package kv

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Stored is one manifest as the planners see it.
type Stored struct {
	ID     ManifestID
	Model  ModelIdentity
	State  StateID
	Tokens Tokens
	Bytes  Bytes // of the manifest file
	Pieces []Piece
	Use    Use
	Pinned bool
	// Stale marks a state that no engine in use could import: first to go.
	Stale bool
	// PerToken is the seconds the engine takes to compute one token again; 0 is
	// not known, and then it weighs as if it were typical.
	PerToken        float64
	Session, Branch string
}

// Stored is the manifest as the planners see it, from its name and file size.
func (m *Manifest) Stored(id ManifestID, size Bytes) Stored {
	return Stored{
		ID: id, Model: m.Model, State: m.State.ID(), Tokens: Tokens(len(m.Tokens)), Bytes: size, Pieces: m.Pieces(),
		Use: Use{Weight: 1, At: m.LastUsed, Serial: m.Serial}, Session: m.Session, Branch: m.Branch,
	}
}

// Inventory is the status list of a store's manifests: by model, state, then
// tokens, most first. Exclusive bytes are those no other manifest names.
func Inventory(list []Stored) []StatusEntry {
	refs := map[BlockID]int{}
	for _, m := range list {
		for _, id := range distinct(m.Pieces) {
			refs[id.ID]++
		}
	}
	out := make([]StatusEntry, 0, len(list))
	for _, m := range list {
		e := StatusEntry{
			ModelIdentity: m.Model, StateIdentity: m.State, Tokens: m.Tokens,
			Bytes: m.Bytes, ExclusiveBytes: m.Bytes, LastUsed: m.Use.At, Sessions: []string{},
		}
		if m.Session != "" {
			e.Sessions = append(e.Sessions, m.Session)
		}
		for _, p := range distinct(m.Pieces) {
			e.Bytes += p.Size
			if refs[p.ID] == 1 {
				e.ExclusiveBytes += p.Size
			}
		}
		out = append(out, e)
	}
	slices.SortStableFunc(out, func(a, b StatusEntry) int {
		return cmp.Or(bytes.Compare(a.ModelIdentity[:], b.ModelIdentity[:]), bytes.Compare(a.StateIdentity[:], b.StateIdentity[:]), cmp.Compare(b.Tokens, a.Tokens))
	})
	return out
}

func distinct(list []Piece) []Piece {
	seen := make(map[BlockID]bool, len(list))
	out := make([]Piece, 0, len(list))
	for _, p := range list {
		if !seen[p.ID] {
			seen[p.ID] = true
			out = append(out, p)
		}
	}
	return out
}

// Use is how often and how lately a manifest was of use.
type Use struct {
	Weight float64   // uses, each halved for every HalfLife since
	At     time.Time // of the last one
	Serial uint64    // orders uses where the clock ties or went back
}

// PackFile is a pack as the planners see it.
type PackFile struct {
	ID     PackID
	Size   Bytes // of the file
	Pieces []Piece
	// Held packs have readers, or a write that is not committed: they stay.
	Held bool
}

// Contents is everything a store holds.
type Contents struct {
	Manifests []Stored
	Packs     []PackFile
	// Held pieces are relied on by a write or a read under way: they stay where they
	// are, whatever becomes of the manifests that name them.
	Held []BlockID
	// Other bytes count as used: quarantine and in-flight reservations.
	Other Bytes
	Cost  PackCost
}

// Goal is what an eviction is for.
type Goal struct {
	Target Bytes // usage to come down to
	Budget Bytes // never exceeded on the way, not even by a rewritten pack
	// Spare is the free space beyond the reserve: compactions stay within it.
	Spare Bytes
	Now   time.Time
	// Model confines the plan to one model's manifests; nil means all.
	Model *ModelIdentity
	// All takes the newest too: clear, not prune.
	All bool
	// Incoming is the growth of a write that room is made for. It will be the
	// newest, so that the present newest may go for it, after all others.
	Incoming Bytes
}

// StepKind is what one step of a plan does.
type StepKind string

// The steps.
const (
	RemoveManifest StepKind = "remove"
	DeletePack     StepKind = "delete"
	CompactPack    StepKind = "compact"
)

// Step is one step of a plan, carried out in order. A pack that was rewritten
// keeps its name for the steps after.
type Step struct {
	Kind     StepKind
	Manifest ManifestID // of RemoveManifest
	Pack     PackID     // of the others
	Tokens   Tokens     // of RemoveManifest
	Session  string
	// Live is what CompactPack writes anew before it deletes the old pack.
	Live []Piece
	// Writes and Frees are bytes; Used is the store's usage after the step.
	Writes, Frees, Used Bytes
	Why                 string
}

// Plan is a list of steps that brings a store to its goal, or as near as it
// gets. What is printed is what is done.
type Plan struct {
	Goal          Goal
	Before, After Bytes
	Steps         []Step
	Manifests     int // there were
	Removed       int // of these
	Reached       bool
}

// String is the plan as a person reads it before it is carried out.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v used, to come down to %v: %d of %d manifests go\n", Size(p.Before), Size(p.Goal.Target), p.Removed, p.Manifests)
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "%4d  %s\n", i+1, s)
	}
	outcome := "reached"
	if !p.Reached {
		outcome = "not reached: the rest is in use, pinned, or the newest"
	}
	fmt.Fprintf(&b, "%v used afterwards, %s\n", Size(p.After), outcome)
	return b.String()
}

// String is one line of a printed plan.
func (s Step) String() string {
	switch s.Kind {
	case RemoveManifest:
		return fmt.Sprintf("remove   %.12v  %7d tokens  -%v  = %v  %s", s.Manifest, s.Tokens, Size(s.Frees), Size(s.Used), s.Why)
	case CompactPack:
		return fmt.Sprintf("rewrite  %.12v  %7d pieces  -%v +%v  = %v  %s", s.Pack, len(s.Live), Size(s.Frees), Size(s.Writes), Size(s.Used), s.Why)
	}
	return fmt.Sprintf("delete   %.12v  %14s  -%v  = %v  %s", s.Pack, "", Size(s.Frees), Size(s.Used), s.Why)
}

// Size prints bytes in the largest unit that leaves a whole part.
type Size Bytes

func (s Size) String() string {
	const units = "KMGT"
	if s < 1<<10 {
		return fmt.Sprintf("%d B", int64(s))
	}
	v, u := float64(s), -1
	for v >= 1<<10 && u < len(units)-1 {
		v, u = v/(1<<10), u+1
	}
	return fmt.Sprintf("%.1f %ciB", v, units[u])
}
