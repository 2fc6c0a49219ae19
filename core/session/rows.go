package session

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/zeebo/blake3"

	"holdfast/core/chat"
	"holdfast/core/content"
)

// Sum is a 16-byte BLAKE3 checksum of a row (S4).
type Sum [16]byte

// Row is one row of snap_rows: one core.
type Row struct {
	// Birth columns, fixed for ever.
	ID, Epoch, Pos int64
	Sub            int32
	Elem           int64
	SessRaw        string // "" is stored as NULL
	MsgID          string // "" is stored as NULL
	CanonID        string // with its repeat suffix
	Kind, Role     string
	CType          string
	Tool, CallID   string // "" is stored as NULL
	Wire           string
	Raw            content.ID // blob of the whole element
	BornCk         int64
	CreatedAt      int64
	// Mutable columns.
	Overlay   []byte
	Active    bool
	CoveredBy string
	Cause     string
	ChangedCk int64
	// Sums as stored.
	RowSum, StateSum Sum
}

// Flip changes the mutable columns of one row.
type Flip struct {
	Row       int64
	Active    bool
	CoveredBy string
	Cause     string
	// Overlay is the row's overlay from now on, nil for none.
	Overlay   []byte
	ChangedCk int64
	StateSum  Sum
}

// CarrierSub is the sub of a carrier: in front of the element at its place.
const CarrierSub = -1

// KindCarrier is the kind of a carrier's row.
const KindCarrier chat.Kind = "carrier"

// BirthSum is the checksum of the birth columns, length-prefixed in the order
// of the table. Ledger is part of it, so a row moved to another is caught.
func (r *Row) BirthSum(ledger string) Sum {
	s := newSummer()
	s.str(ledger)
	s.num(r.ID, r.Epoch, r.Pos, int64(r.Sub), r.Elem)
	for _, f := range [...]string{r.SessRaw, r.MsgID, r.CanonID, r.Kind, r.Role, r.CType, r.Tool, r.CallID, r.Wire} {
		s.str(f)
	}
	s.bytes(r.Raw[:])
	s.num(r.BornCk, r.CreatedAt)
	return s.sum()
}

// CurrentSum is the checksum of row sum and mutable columns.
func (r *Row) CurrentSum() Sum {
	return stateSum(r.RowSum, r.Overlay, r.Active, r.CoveredBy, r.Cause)
}

func stateSum(row Sum, overlay []byte, active bool, coveredBy, cause string) Sum {
	s := newSummer()
	s.bytes(row[:])
	s.bytes(overlay)
	var a int64
	if active {
		a = 1
	}
	s.num(a)
	s.str(coveredBy)
	s.str(cause)
	return s.sum()
}

// Seal sets both sums of a new row.
func (r *Row) Seal(ledger string) {
	r.RowSum = r.BirthSum(ledger)
	r.StateSum = r.CurrentSum()
}

// Intact reports whether both stored sums fit the columns.
func (r *Row) Intact(ledger string) bool {
	return r.RowSum == r.BirthSum(ledger) && r.StateSum == r.CurrentSum()
}

// AggregateOf is the S4 sum over the live ones of rows in order.
func AggregateOf(rows []RowIndex) Aggregate {
	buf := make([]byte, 0, 16*len(rows))
	for i := range rows {
		if rows[i].Live() {
			buf = append(buf, rows[i].StateSum[:]...)
		}
	}
	id := content.Of(buf)
	return Aggregate{Sum: hex.EncodeToString(id[:16]), Count: len(buf) / 16}
}

type summer struct {
	h *blake3.Hasher
	n [8]byte
}

func newSummer() *summer { return &summer{h: blake3.New()} }

func (s *summer) num(vs ...int64) {
	for _, v := range vs {
		binary.LittleEndian.PutUint64(s.n[:], uint64(v))
		s.h.Write(s.n[:])
	}
}

func (s *summer) str(v string) {
	s.num(int64(len(v)))
	s.h.WriteString(v)
}

func (s *summer) bytes(v []byte) {
	s.num(int64(len(v)))
	s.h.Write(v)
}

func (s *summer) sum() (out Sum) {
	s.h.Digest().Read(out[:])
	return out
}
