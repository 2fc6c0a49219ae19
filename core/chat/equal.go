package chat

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/blake3"

	"holdfast/core/content"
)

// CanonID is the bare canonical id of a core: the first 16 bytes of BLAKE3
// over its length-prefixed role, kind, call id, tool name and text. It does
// not depend on the wire, on key order or on cache markers.
type CanonID [16]byte

// String writes the id as it is stored and shown: "h_" and 32 hex digits.
func (c CanonID) String() string { return "h_" + hex.EncodeToString(c[:]) }

func (p *Part) canon() CanonID {
	h := blake3.New()
	var n [8]byte
	for _, f := range [...]string{string(p.Role), string(p.Kind), p.CallID, p.Tool, p.Text} {
		binary.LittleEndian.PutUint64(n[:], uint64(len(f)))
		h.Write(n[:])
		h.WriteString(f)
	}
	var id CanonID
	h.Digest().Read(id[:])
	return id
}

// KeyOf is the element key: BLAKE3 over the bare canonical ids in order, with
// reasoning left out and exact duplicate results collapsed. An element of
// reasoning alone has the key of its role. Parts must carry their Canon.
func KeyOf(parts []Part) content.ID {
	buf := make([]byte, 0, 16*len(parts))
	seen := map[CanonID]bool(nil)
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case Reasoning:
			continue
		case ToolResult:
			if seen[p.Canon] {
				continue
			}
			if seen == nil {
				seen = make(map[CanonID]bool)
			}
			seen[p.Canon] = true
		}
		buf = append(buf, p.Canon[:]...)
	}
	if len(buf) == 0 && len(parts) > 0 {
		buf = append(buf, "role:"+string(parts[0].Role)...)
	}
	return content.Of(buf)
}
