package demo

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"holdfast/core/wire"
)

// The provider's cache, by the rules the frozen cost traces use: a request
// reads from cache the longest prefix it has in common with the request before
// it, if that was not too long ago, and writes the rest. The prompt is read in
// the order tools, system, messages, and compared block by block; a marker
// that says "cache up to here" is no part of the block that carries it.

// minCached is the shortest prefix that is cached, in tokens.
const minCached = 1024

// lifetimes of a cached prefix.
const (
	anthropicLifetime = 5 * time.Minute
	chatLifetime      = 10 * time.Minute
)

// piece is one block of a prompt, known by its hash.
type piece struct {
	sum    uint64
	tokens int64
	// ends says that the client asked to cache up to here.
	ends bool
}

func sumOf(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// pieceOf is a block without its cache marker, four bytes a token.
func pieceOf(v wire.Value) piece {
	raw, ends := v.Bytes(), false
	if v.Is('{') {
		if o := v.Obj(); !o.Get("cache_control").Absent() {
			raw, ends = o.Without("cache_control"), true
		}
	}
	return piece{sum: sumOf(raw), tokens: int64(tokensOf(raw)), ends: ends}
}

// promptOf lists a request's blocks in the order the cache reads them.
func promptOf(body wire.Object, messages []heard) (out []piece) {
	for _, name := range []string{"tools", "system"} {
		field := body.Get(name)
		if field.Is('"') {
			out = append(out, pieceOf(field))
		}
		list, _ := field.List()
		for _, v := range list {
			out = append(out, pieceOf(v))
		}
	}
	for _, h := range messages {
		for _, p := range h.parts {
			out = append(out, p.piece)
		}
	}
	return out
}

// meter counts what one conversation costs, request by request.
type meter struct {
	before []piece
	at     time.Duration
	played bool
}

// request books a prompt at a moment of the session and returns its input
// classes. marked wires write to the cache only up to the client's last
// marker; the others cache by themselves, and do not tell written from read.
func (m *meter) request(prompt []piece, at, lifetime time.Duration, marked bool) (c wire.Counts) {
	end := len(prompt)
	for marked && end > 0 && !prompt[end-1].ends {
		end--
	}
	same := m.played && at-m.at <= lifetime
	for i, p := range prompt {
		same = same && i < end && i < len(m.before) && m.before[i].sum == p.sum
		switch {
		case same:
			c.Cached += p.tokens
		case marked && i < end:
			c.CacheWrite += p.tokens
		default:
			c.Input += p.tokens
		}
	}
	if c.Cached < minCached {
		c.CacheWrite, c.Cached = c.CacheWrite+c.Cached, 0
		if !marked {
			c.Input, c.CacheWrite = c.Input+c.CacheWrite, 0
		}
	}
	m.before, m.at, m.played = prompt, at, true
	return c
}
