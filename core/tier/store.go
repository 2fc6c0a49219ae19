package tier

import (
	"context"
	"iter"

	"holdfast/core/content"
)

// Segments is a store of blocks in immutable packs. Its methods may be called
// at the same time.
//
// Errors: a block or pack that is not there is fs.ErrNotExist; bytes that are
// not those their ID names are a *content.MismatchError; anything else is the
// machine's trouble and says nothing about what is stored.
type Segments interface {
	// Where says in which pack a block is, and where in it.
	Where(block content.ID) (pack content.ID, off, size int64, ok bool)
	// EachPack visits every pack with the size of its file, whether it is being
	// read, and the blocks that would be read from it.
	EachPack(visit func(pack content.ID, size int64, busy bool, blocks iter.Seq2[content.ID, int64]))
	// PackCost is what a pack takes beside its blocks: once, and for each.
	PackCost() (fixed, block int64)
	// WritePack writes one pack of the blocks that write puts into it. It holds no
	// lock while write runs. When it returns nil the pack is durable and its blocks
	// are known; after an error nothing of it is left, or is counted.
	WritePack(write func(put func(id content.ID, block []byte) error) error) (pack content.ID, size int64, err error)
	// Read hands every block to use, several at the same time and in any order;
	// the bytes are use's until it returns. Use checks them against the ID, in the
	// one pass it makes over them, and returns a *content.MismatchError for others:
	// the store then tries another copy, and forgets the damaged one.
	Read(ctx context.Context, blocks []content.ID, use func(i int, block []byte) error) error
	// DropPack deletes a pack, durably, unless a block of it is wanted by now. One
	// that is being read is an error for which Busy is true.
	DropPack(pack content.ID, wanted func(content.ID) bool) (freed int64, err error)
	// Compact writes the wanted blocks of a pack to a new one, verified, and
	// deletes the old one, or keeps it in quarantine. Without a wanted block made
	// is the zero ID.
	Compact(ctx context.Context, pack content.ID, wanted func(content.ID) bool, keep bool) (made content.ID, size int64, err error)
	// Busy reports whether an error means that a pack was left because it is read.
	Busy(err error) bool
	// Sweep deletes the packs without a wanted block, and makes this and earlier
	// deletions durable.
	Sweep(wanted func(content.ID) bool) (freed int64, err error)
	// Used is the running total of all bytes below the root, Rescan counts them
	// anew. Bytes of packs being written are in neither.
	Used() int64
	Rescan() (int64, error)
	// Free is the space on the disk a user without privileges may still fill.
	Free() (int64, error)
}

// Manifests is the other half of the store: opaque records by key, and the rest
// of what its folder holds. The errors are those of Segments.
type Manifests interface {
	Manifests() []content.ID
	Manifest(key content.ID) ([]byte, error)
	ManifestSize(key content.ID) int64
	// PutManifest stores a record. When it returns nil the record is durable: this
	// is the commit point. After an error it is not there.
	PutManifest(key content.ID, data []byte) error
	// DropManifest deletes a record; the next Sweep makes that durable.
	DropManifest(key content.ID) error
	// QuarantineManifest puts a record aside, where it can be looked at.
	QuarantineManifest(key content.ID) error
	Quarantined() (objects int, size int64)
	EmptyQuarantine() (freed int64, err error)
	// Note is a small record of the owner's; SetNote replaces it in one step.
	Note() ([]byte, error)
	SetNote(data []byte) error
	// Swept is the number of half-written files that opening removed.
	Swept() int
	// Close gives the folder back.
	Close() error
}

// Slots is an engine as the tier needs it.
type Slots interface {
	// Save has the engine write the state of an idle slot to a fresh file, and
	// returns that file with the tokens and bytes the engine says it wrote. The
	// file is the tier's from then on: nobody else writes to it, and the tier
	// removes it. It is called from the spill worker and may take long.
	Save(ctx context.Context, slot int) (path string, tokens int, size int64, err error)
}
