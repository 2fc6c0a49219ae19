// Package kv is the disk KV tier as values: what a stored attention state is,
// which of them fit a prompt, and what to write, read, evict and rewrite. It
// opens no file and asks no clock; core/tier carries its plans out.
//
// The walk of one state, a file each: an engine's slot file is parsed to a
// Geometry (package slotfile), whose rows are gathered into blocks of 64 tokens,
// named by the digest of their bytes. PlanSpill says which blocks are not stored
// yet. A Manifest lists the blocks of one saved conversation point; writing it is
// the commit point. The Index answers which manifest shares the longest prefix
// with a prompt, PlanFill which reads bring it back and whether they pay,
// PlanEvict and PlanCompact how the store keeps its budget.
//
// Tokens are the index, bytes are the identity: equal tokens may have other row
// bytes in another history, so a block is found through its chain key and
// trusted by its digest, and a restore uses the blocks of one manifest only.
//
// The cache is never an authority. Every doubt is a typed refusal here, and a
// miss with a reason above.
package kv

import (
	"holdfast/core/content"
	"holdfast/core/usage"
)

// BlockTokens is the number of tokens whose rows make one block. It is the same
// for every model and every length: growth then rewrites at most 63 rows, and
// fewer tokens would only make manifests longer.
const BlockTokens = 64

// MinTokens is the shortest prefix worth keeping unless the owner says otherwise:
// below it the engine computes the prefix faster than a person notices.
const MinTokens Tokens = 256

// Bytes and Tokens are usage's, so that whoever handles plans needs this package
// only.
type (
	Bytes  = usage.Bytes
	Tokens = usage.Tokens
)

// Token is one token id of the engine's vocabulary, as its slot file has it.
type Token int32

// The digests of this package: equal types would let one stand for another.
type (
	// BlockID names the bytes of a block, a tail or a boundary blob.
	BlockID content.ID
	// ChainKey names a whole prefix of n·64 tokens under one state identity.
	ChainKey content.ID
	// ManifestID names an encoded manifest: the digest it ends with.
	ManifestID content.ID
	// PackID names a pack file, as the store names it.
	PackID content.ID
)

// BlockOf is the name of a block's bytes.
func BlockOf(b []byte) BlockID { return BlockID(content.Of(b)) }

func (id BlockID) String() string    { return content.ID(id).String() }
func (id ChainKey) String() string   { return content.ID(id).String() }
func (id ManifestID) String() string { return content.ID(id).String() }
func (id PackID) String() string     { return content.ID(id).String() }

// IsZero reports whether id names nothing.
func (id BlockID) IsZero() bool { return id == BlockID{} }

// IsZero reports whether id names nothing.
func (id ManifestID) IsZero() bool { return id == ManifestID{} }

// Location is where the store holds a block: a range of one pack.
type Location struct {
	Pack         PackID
	Offset, Size Bytes
}
