package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/zeebo/blake3"

	"holdfast/core/content"
	"holdfast/storage/durable"
)

// A pack is
//
//	head     8 bytes
//	blocks   end to end
//	index    per block: ID (32 bytes), size (u32)
//	end      digest of head, index and count (32 bytes), count (u32), 8 bytes
//
// The digest is the pack's name. It covers the IDs of all blocks, and so their
// bytes, without a byte of them being read.
const (
	packHead  = "hfpack\x00\x01"
	packEnd   = "hfpkend\x01"
	entrySize = 32 + 4
	endSize   = 32 + 4 + 8
	// maxBlocks bounds an index: 16 Mi blocks are a terabyte of small ones.
	maxBlocks = 1 << 24
	// tailRead is read from the end of a pack at once: end and index of most.
	tailRead = 4 << 10
)

// PackCost is what a pack takes beside the bytes of its blocks: once, and for
// each of them.
func (s *Store) PackCost() (fixed, block int64) { return overhead(0), entrySize }

func overhead(n int) int64 { return int64(len(packHead) + n*entrySize + endSize) }

// entry is one block of a pack.
type entry struct {
	id   content.ID
	off  int64
	size int32
}

// pack is one file of blocks. Only readers and gone change, under the store's mu.
type pack struct {
	id      content.ID
	size    int64 // of the file
	blocks  []entry
	readers int
	gone    bool // no longer one of the store's
}

// place is a block of a pack.
type place struct {
	p *pack
	i int
}

func (pl place) entry() entry { return pl.p.blocks[pl.i] }

// appendIndex writes index and end.
func appendIndex(blocks []entry) (b []byte, id content.ID) {
	b = make([]byte, 0, overhead(len(blocks)))
	for _, e := range blocks {
		b = append(b, e.id[:]...)
		b = binary.LittleEndian.AppendUint32(b, uint32(e.size))
	}
	count := binary.LittleEndian.AppendUint32(nil, uint32(len(blocks)))
	id = packID(b, count)
	b = append(append(b, id[:]...), count...)
	return append(b, packEnd...), id
}

func packID(index, count []byte) (id content.ID) {
	h := blake3.New()
	h.Write([]byte(packHead)) // never fails, as hash.Hash says
	h.Write(index)
	h.Write(count)
	h.Sum(id[:0])
	return id
}

// errPack refuses a file that is not the pack its name says.
var errPack = errors.New("segment: not the pack its name says")

// readPack reads the index of a pack. Every length is checked before it is used.
func readPack(name string, id content.ID) (*pack, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if !info.Mode().IsRegular() || size < overhead(0) {
		return nil, fmt.Errorf("%w: %d bytes", errPack, size)
	}
	tail, n, err := readTail(f, size)
	if err != nil {
		return nil, err
	}
	index := tail[len(tail)-endSize-n*entrySize : len(tail)-endSize]
	end := tail[len(tail)-endSize:]
	if packID(index, end[32:36]) != id || !bytes.Equal(end[:32], id[:]) {
		return nil, fmt.Errorf("%w: the index has another digest", errPack)
	}
	p := &pack{id: id, size: size, blocks: make([]entry, n)}
	off := int64(len(packHead))
	for i := range p.blocks {
		e := index[i*entrySize:]
		p.blocks[i] = entry{content.ID(e[:32]), off, int32(binary.LittleEndian.Uint32(e[32:]))}
		off += int64(p.blocks[i].size)
		if p.blocks[i].size <= 0 {
			return nil, fmt.Errorf("%w: a block of %d bytes", errPack, p.blocks[i].size)
		}
	}
	if off-int64(len(packHead))+overhead(n) != size {
		return nil, fmt.Errorf("%w: %d bytes, the index says %d", errPack, size, off+overhead(n))
	}
	return p, nil
}

// readTail reads at least index and end of a pack of n blocks.
func readTail(f *os.File, size int64) (tail []byte, n int, err error) {
	tail = make([]byte, min(size, tailRead))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil {
		return nil, 0, err
	}
	end := tail[len(tail)-endSize:]
	if string(end[36:]) != packEnd {
		return nil, 0, fmt.Errorf("%w: it does not end like one", errPack)
	}
	n = int(binary.LittleEndian.Uint32(end[32:]))
	if n > maxBlocks || overhead(n) > size {
		return nil, 0, fmt.Errorf("%w: %d blocks in %d bytes", errPack, n, size)
	}
	if need := n*entrySize + endSize; need > len(tail) {
		tail = make([]byte, need)
		if _, err := f.ReadAt(tail, size-int64(need)); err != nil {
			return nil, 0, err
		}
	}
	return tail, n, nil
}

// admit makes the blocks of a pack known; the caller holds mu. A pack of the
// same name was replaced by this one.
func (s *Store) admit(p *pack) {
	if old := s.packs[p.id]; old != nil {
		s.forget(old)
	}
	s.packs[p.id] = p
	s.used.Packs += p.size
	for i, e := range p.blocks {
		if _, ok := s.index[e.id]; ok {
			s.spare[e.id] = append(s.spare[e.id], place{p, i})
			continue
		}
		s.index[e.id] = place{p, i}
	}
}

// forget is admit undone; the caller holds mu. A block with a spare copy stays
// known.
func (s *Store) forget(p *pack) {
	delete(s.packs, p.id)
	p.gone = true
	s.used.Packs -= p.size
	for _, e := range p.blocks {
		s.unplace(e.id, p)
	}
}

// unplace forgets every copy of a block in p; the caller holds mu.
func (s *Store) unplace(id content.ID, p *pack) {
	rest := s.spare[id][:0]
	for _, pl := range s.spare[id] {
		if pl.p != p {
			rest = append(rest, pl)
		}
	}
	if first, ok := s.index[id]; ok && first.p == p {
		delete(s.index, id)
		if len(rest) > 0 {
			s.index[id], rest = rest[0], rest[1:]
		}
	}
	if s.spare[id] = rest; len(rest) == 0 {
		delete(s.spare, id)
	}
}

// Where says in which pack a block is read, and where in it.
func (s *Store) Where(id content.ID) (pack content.ID, off, size int64, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	pl, ok := s.index[id]
	if !ok {
		return content.ID{}, 0, 0, false
	}
	e := pl.entry()
	return pl.p.id, e.off, int64(e.size), true
}

// EachPack visits every pack: the size of its file, whether it is being read at
// the moment, and the blocks that are read from it and from no other copy.
// Visit must not call back.
func (s *Store) EachPack(visit func(id content.ID, size int64, busy bool, blocks iter.Seq2[content.ID, int64])) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id, p := range s.packs {
		visit(id, p.size, p.readers > 0, s.readFrom(p))
	}
}

// readFrom lists the blocks that are read from p and not from another copy.
func (s *Store) readFrom(p *pack) iter.Seq2[content.ID, int64] {
	return func(yield func(content.ID, int64) bool) {
		for i, e := range p.blocks {
			if s.index[e.id] == (place{p, i}) && !yield(e.id, int64(e.size)) {
				return
			}
		}
	}
}

// WritePack writes one pack of the blocks that write puts into it, in that
// order, and returns its name and size. Each block is named by its digest; the
// caller has just computed it. Without a block there is no pack and no error.
//
// The commit point is the rename: before it a stop leaves a temporary file,
// after it a pack nobody names, both of which go at the next start. The blocks
// are known only once the folder is synced as well, so no manifest can name one
// that a power cut would take back.
func (s *Store) WritePack(write func(put func(id content.ID, block []byte) error) error) (id content.ID, size int64, err error) {
	p, temp, err := s.stage(write)
	if err != nil || p == nil {
		return content.ID{}, 0, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.publish(p, temp); err != nil {
		return content.ID{}, 0, err
	}
	return p.id, p.size, nil
}

// stage writes the temporary file of a pack and syncs it; without a block there
// is no pack. It holds no lock: write may call back, to make room. Until it is
// published the file counts for nothing, its bytes are the caller's to reserve.
func (s *Store) stage(write func(put func(id content.ID, block []byte) error) error) (p *pack, temp string, err error) {
	temp = s.path(packDir, tempName("pack"))
	s.setStaged(temp, true)
	f, err := s.fs.Create(temp, 0o600)
	if err != nil {
		return nil, "", errors.Join(fmt.Errorf("segment: new pack: %w", err), s.unstage(temp))
	}
	w := &packWriter{f: f, off: int64(len(packHead))}
	err = w.fill(write)
	err = errors.Join(err, f.Close())
	if err != nil || len(w.blocks) == 0 {
		return nil, "", errors.Join(err, s.unstage(temp))
	}
	return &pack{id: w.id, size: w.off, blocks: w.blocks}, temp, nil
}

// publish gives a staged pack its name; the caller holds writing.
func (s *Store) publish(p *pack, temp string) error {
	err := s.fs.Rename(temp, s.packPath(p.id))
	if err == nil {
		err = s.fs.SyncDir(s.path(packDir))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("segment: publish pack: %w", err), s.unstage(temp), s.lose(p.id))
	}
	s.setStaged(temp, false)
	s.clearStray(s.packPath(p.id))
	s.mu.Lock()
	s.admit(p)
	s.mu.Unlock()
	return nil
}

// lose removes the file of a pack whose publishing failed, whatever it holds.
func (s *Store) lose(id content.ID) error {
	s.mu.Lock()
	if old := s.packs[id]; old != nil {
		s.forget(old)
	}
	s.mu.Unlock()
	return s.discard(s.packPath(id))
}

// setStaged notes that a file is being written, so that no count takes it for
// stored bytes.
func (s *Store) setStaged(name string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on {
		s.staged[name] = true
	} else {
		delete(s.staged, name)
	}
}

// unstage removes a file that was given up.
func (s *Store) unstage(temp string) error {
	s.setStaged(temp, false)
	return s.discard(temp)
}

// packWriter is one pack under way. Small blocks are collected, so that the
// file is written in pieces worth a call.
type packWriter struct {
	f      durable.File
	buf    []byte
	begun  int64 // up to here the kernel was asked to write back
	off    int64
	blocks []entry
	id     content.ID
}

const (
	// writePiece is how much is collected before it is written.
	writePiece = 1 << 20
	// writebackEvery is how much is written before the disk is set to work on it.
	writebackEvery = 8 << 20
)

// fill writes head, blocks, index and end, and syncs them.
func (w *packWriter) fill(write func(put func(id content.ID, block []byte) error) error) error {
	w.buf = append(w.buf, packHead...)
	if err := write(w.put); err != nil || len(w.blocks) == 0 {
		return err
	}
	var end []byte
	end, w.id = appendIndex(w.blocks)
	w.off += int64(len(end))
	if err := errors.Join(w.write(end), w.flush()); err != nil {
		return fmt.Errorf("segment: write pack: %w", err)
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("segment: sync pack: %w", err)
	}
	return nil
}

func (w *packWriter) put(id content.ID, block []byte) error {
	if len(block) == 0 || len(block) > 1<<30 || len(w.blocks) == maxBlocks {
		return fmt.Errorf("segment: a block of %d bytes cannot be stored", len(block))
	}
	w.blocks = append(w.blocks, entry{id, w.off, int32(len(block))})
	w.off += int64(len(block))
	if err := w.write(block); err != nil {
		return fmt.Errorf("segment: write pack: %w", err)
	}
	if n := w.off - int64(len(w.buf)) - w.begun; n >= writebackEvery {
		beginWriteback(w.f, w.begun, n)
		w.begun += n
	}
	return nil
}

func (w *packWriter) write(b []byte) error {
	if len(w.buf)+len(b) > writePiece {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(b) >= writePiece {
		_, err := w.f.Write(b)
		return err
	}
	w.buf = append(w.buf, b...)
	return nil
}

func (w *packWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.f.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}
