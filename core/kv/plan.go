package kv

import "time"

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
	// Other bytes count as used: quarantine and in-flight reservations.
	Other Bytes
	Cost  PackCost
}

// Goal is what an eviction is for.
type Goal struct {
	Target Bytes // usage to come down to
	Budget Bytes // never exceeded on the way, not even by a compaction
	// Spare is the free space beyond the reserve: compactions stay within it.
	Spare Bytes
	Now   time.Time
	// Model confines the plan to one model's manifests; nil means all.
	Model *ModelIdentity
	// All takes the newest too: clear, not prune.
	All bool
}

// StepKind is what one step of a plan does.
type StepKind string

// The steps.
const (
	RemoveManifest StepKind = "remove"
	DeletePack     StepKind = "delete"
	CompactPack    StepKind = "compact"
)

// Step is one step of a plan, carried out in order.
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
	Manifests     int // removed
	Reached       bool
}
