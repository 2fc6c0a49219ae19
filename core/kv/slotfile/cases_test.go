package slotfile

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"holdfast/core/kv"
)

// What went wrong elsewhere with files of engine state, and does not here. K
// numbers are reports of engines and their caches, KV numbers findings about a
// comparable tier; what is about plans has its cases in package kv.
func TestCases(t *testing.T) {
	for name, check := range map[string]func(*testing.T){
		"K1 a window or hybrid state without checkpoints ends at its end":  caseNoCheckpoints,
		"K2 files with and without an appendix are read, unknown ones not": caseAppendix,
		"K3 a half-written file is never whole":                            caseHalfWritten,
		"K4 a truncated file is refused before the engine sees it":         truncated,
		"K5 whether draft state is there is known":                         TestDraftState,
		"K7 a save of nothing is a failure":                                caseNothingSaved,
		"K9 media are refused, not mistaken for text":                      caseMedia,
		"K10 a file shorter than the answer said is refused":               TestFileShorterThanItsSize,
		"K33 a window state is not cut between its boundaries":             cutAtAnyRow,
		"K38 a state cut at a checkpoint is the engine's at that length":   TestRealFilesComeBack,
		"K41 a checkpoint of another size is refused":                      caseCheckpointSize,
		"K20 cells of another slot are refused":                            caseOtherSlot,
		"K34 a window that ends elsewhere is refused":                      caseWindowElsewhere,
		"K60 a piece that could not be written stays missing":              caseFailedWrite,
		"K67 a changed byte does not come back":                            flippedRows,
		"K68 a transfer that failed does not count as done":                TestAssemblyRefusesForeignPieces,
		"KV1 a length larger than the file is a refusal, not a crash":      TestLyingLengths,
		"KV19 a state without rows or parts is refused":                    caseNothingSaved,
		"KV23 the disk's trouble is not the file's":                        diskErrors,
		"KV49 a layout nobody knows is kept whole or not at all":           TestOpaque,
	} {
		t.Run(name, check)
	}
}

func caseNoCheckpoints(t *testing.T) {
	for _, name := range []string{"window", "hybrid", "recurrent"} {
		e := samples()[name]
		e.checks = nil
		m, pieces := split(t, e.file(), len(e.tokens))
		if len(m.Boundaries) != 1 || m.End(len(e.tokens)-1) != 0 {
			t.Errorf("%s: %+v", name, m.Boundaries)
		}
		same(t, name, join(t, m, pieces, len(e.tokens), e.target()), e.file())
	}
}

func caseAppendix(t *testing.T) {
	e := samples()["window"]
	with := e.file()
	e.checks = nil
	without := e.file()
	parse(t, with)
	parse(t, without)
	later := slices.Clone(with)
	later[len(without)+4] = 2
	if _, err := Parse(&disk{later}, int64(len(later))); !errors.Is(err, kv.ErrGeometry) {
		t.Errorf("an appendix of version 2: %v", err)
	}
}

func caseHalfWritten(t *testing.T) {
	e := samples()["dense"]
	m, pieces := split(t, e.file(), len(e.tokens))
	for missing := range pieces {
		a, err := Assemble(&disk{}, m, plan(t, m, len(e.tokens)), e.target())
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range pieces {
			if i != missing {
				if err := a.Put(i, p); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := a.Finish(); !errors.Is(err, ErrIncomplete) {
			t.Errorf("without piece %d: %v", missing, err)
		}
	}
}

func caseNothingSaved(t *testing.T) {
	for name, b := range map[string][]byte{
		"no bytes":  nil,
		"no tokens": words(nil, 0x67677371, 4, 4, 0xffffffff, 1, 0, 0, 1, 0),
		"no cells":  append(words(nil, 0x67677371, 4, 5, 0xffffffff, 1, 1, 300, 0), words(nil, 2, 0, 0)...),
		"no state":  words(nil, 0x67677371, 4, 5, 0xffffffff, 1, 1, 300, 0),
	} {
		if _, err := Parse(&disk{b}, int64(len(b))); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func caseMedia(t *testing.T) {
	e := samples()["mrope"]
	b := e.file()
	n := len(e.tokens)
	binary.LittleEndian.PutUint32(b[12+4*(n+3):], 1) // one medium follows
	if _, err := Parse(&disk{b}, int64(len(b))); !errors.Is(err, kv.ErrGeometry) {
		t.Errorf("a medium announced: %v", err)
	}
	b = e.file()
	binary.LittleEndian.PutUint32(b[8:], uint32(n+4+2))
	b = slices.Insert(b, 12+4*(n+4), make([]byte, 8)...)
	if _, err := Parse(&disk{b}, int64(len(b))); !errors.Is(err, kv.ErrGeometry) {
		t.Errorf("words behind the tokens: %v", err)
	}
	b = e.file()
	cells := 12 + 4*(n+4) + 12
	binary.LittleEndian.PutUint32(b[cells+24*5+8:], 77) // an image coordinate
	if _, err := Parse(&disk{b}, int64(len(b))); !errors.Is(err, kv.ErrGeometry) {
		t.Errorf("a cell of an image: %v", err)
	}
}

func caseCheckpointSize(t *testing.T) {
	for _, name := range []string{"window", "hybrid", "recurrent"} {
		e := samples()[name]
		b := e.file()
		f := parse(t, b)
		at := f.at[0].at - 16 // of the first checkpoint's length
		for _, d := range []uint64{1, 4, 1 << 40, ^uint64(0), ^uint64(3)} {
			c := slices.Clone(b)
			binary.LittleEndian.PutUint64(c[at:], binary.LittleEndian.Uint64(c[at:])+d)
			if _, err := Parse(&disk{c}, int64(len(c))); err == nil {
				t.Errorf("%s, longer by %d: read", name, int64(d))
			}
		}
		c := slices.Insert(slices.Clone(b), int(f.at[0].at+f.at[0].size), 1, 2, 3, 4)
		binary.LittleEndian.PutUint64(c[at:], binary.LittleEndian.Uint64(c[at:])+4)
		if _, err := Parse(&disk{c}, int64(len(c))); err == nil {
			t.Errorf("%s, with bytes behind its state: read", name)
		}
	}
}

func caseFailedWrite(t *testing.T) {
	e := samples()["dense"]
	b := e.file()
	m, pieces := split(t, b, len(e.tokens))
	d := &brokenDisk{from: int64(len(b)), err: errors.New("no space left")}
	a, err := Assemble(d, m, plan(t, m, len(e.tokens)), e.target())
	if err != nil {
		t.Fatal(err)
	}
	d.from = 0
	if err := a.Put(0, pieces[0]); err == nil {
		t.Fatal("written")
	}
	d.from = int64(len(b))
	for i := 1; i < len(pieces); i++ {
		if err := a.Put(i, pieces[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Finish(); !errors.Is(err, ErrIncomplete) {
		t.Error(err)
	}
	if err := a.Put(0, pieces[0]); err != nil || a.Finish() != nil {
		t.Errorf("tried again: %v", err)
	}
}

// caseOtherSlot: streams of their own, and every cell says it is another's.
func caseOtherSlot(t *testing.T) {
	e := samples()["streams"]
	b := e.file()
	cells := int(parse(t, b).Geometry.Regions[3].Offset)
	for i := range e.tokens {
		binary.LittleEndian.PutUint32(b[cells+12*i+8:], 1)
	}
	if _, err := Parse(&disk{b}, int64(len(b))); !errors.Is(err, kv.ErrGeometry) {
		t.Error(err)
	}
}

// caseWindowElsewhere: the window is the one of a token earlier.
func caseWindowElsewhere(t *testing.T) {
	e := samples()["window one"]
	b := e.file()
	at := int(parse(t, b).at[0].at) + 8
	for i := range e.window {
		pos := b[at+12*i:]
		binary.LittleEndian.PutUint32(pos, binary.LittleEndian.Uint32(pos)-1)
	}
	if _, err := Parse(&disk{b}, int64(len(b))); !errors.Is(err, kv.ErrGeometry) {
		t.Error(err)
	}
}
