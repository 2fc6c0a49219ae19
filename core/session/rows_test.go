package session

import (
	"reflect"
	"testing"

	"holdfast/core/content"
)

// sealedRow has no zero column, so that every one of them can be changed.
func sealedRow() Row {
	r := Row{ID: 7, Epoch: 2, Pos: 5, Sub: 1, Elem: 4, SessRaw: "raw", MsgID: "msg", CanonID: "h_00", Kind: "text", Role: "user", CType: "message",
		Tool: "read", CallID: "call", Wire: "anthropic", Raw: content.Of([]byte("bytes")), BornCk: 3, CreatedAt: 1000,
		Overlay: []byte("overlay"), Active: true, CoveredBy: "b1", Cause: "fold", ChangedCk: 3}
	r.Seal("L")
	return r
}

// TestRowFlips: one changed bit in any column is caught, except in changed_ck,
// which only says when.
func TestRowFlips(t *testing.T) {
	r := sealedRow()
	if !r.Intact("L") {
		t.Fatal("a sealed row is not intact")
	}
	if r.Intact("M") {
		t.Error("a row moved to another ledger is not caught")
	}
	kind := reflect.TypeFor[Row]()
	for i := range kind.NumField() {
		name := kind.Field(i).Name
		for bit := range 8 {
			r := sealedRow()
			r.Overlay = []byte("overlay")
			flipBit(t, reflect.ValueOf(&r).Elem().Field(i), bit)
			if caught := !r.Intact("L"); caught != (name != "ChangedCk") {
				t.Errorf("bit %d of %s: caught is %v", bit, name, caught)
			}
		}
	}
}

func flipBit(t *testing.T, f reflect.Value, bit int) {
	t.Helper()
	switch f.Kind() {
	case reflect.Int64, reflect.Int32:
		f.SetInt(f.Int() ^ 1<<bit)
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.String:
		b := []byte(f.String())
		b[len(b)-1] ^= 1 << bit
		f.SetString(string(b))
	case reflect.Array, reflect.Slice:
		e := f.Index(f.Len() - 1)
		e.SetUint(e.Uint() ^ 1<<bit)
	default:
		t.Fatalf("a column of kind %s is not in this test", f.Kind())
	}
}

// TestRowColumnsDoNotRun: a byte that moves from one column to the next is
// caught, because columns are length-prefixed.
func TestRowColumnsDoNotRun(t *testing.T) {
	texts := []string{"SessRaw", "MsgID", "CanonID", "Kind", "Role", "CType", "Tool", "CallID", "Wire"}
	for i := range texts[1:] {
		r := sealedRow()
		v := reflect.ValueOf(&r).Elem()
		a, b := v.FieldByName(texts[i]), v.FieldByName(texts[i+1])
		s := a.String()
		a.SetString(s[:len(s)-1])
		b.SetString(s[len(s)-1:] + b.String())
		if r.Intact("L") {
			t.Errorf("a byte moved from %s to %s is not caught", texts[i], texts[i+1])
		}
	}
	r := sealedRow()
	r.CoveredBy, r.Cause = "b1f", "old"
	if r.Intact("L") {
		t.Error("a byte moved from covered_by to cause is not caught")
	}
}

// TestRowSumIsForEver: stored sums must fit in every later version.
func TestRowSumIsForEver(t *testing.T) {
	r := sealedRow()
	if got := content.ID(append(r.RowSum[:], r.StateSum[:]...)).String(); got != rowSumGolden {
		t.Errorf("the sums of the sealed row are\n%s, want\n%s", got, rowSumGolden)
	}
}

const rowSumGolden = "859c4f5395976d0b4c6a18bdf4de8667d17c39c14aad918ff244ae1b5c0575db"

func TestAggregate(t *testing.T) {
	a, b := RowIndex{StateSum: Sum{1}}, RowIndex{StateSum: Sum{2}}
	all := map[Aggregate]string{}
	for name, rows := range map[string][]RowIndex{"none": nil, "a": {a}, "b": {b}, "a b": {a, b}, "b a": {b, a}, "a a": {a, a}} {
		s := AggregateOf(rows)
		if s.Count != len(rows) || len(s.Sum) != 32 {
			t.Errorf("%s: %+v", name, s)
		}
		if other, taken := all[s]; taken {
			t.Errorf("%s and %s have the same aggregate", name, other)
		}
		all[s] = name
	}
}
