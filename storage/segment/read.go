package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"

	"holdfast/core/content"
)

const (
	// readPiece is the most that is read at once; neighbouring blocks are read
	// together up to it. A block alone may be larger.
	readPiece = 4 << 20
	// users hash and write beside the one that reads.
	users = 2
	// readDepth pieces are in memory at once, and no more than readBytes of them,
	// or a single one: two being used, one read, one ready.
	readDepth = 4
	readBytes = 32 << 20
)

// want is one block to be read: the caller's number for it, and where it is.
type want struct {
	i  int
	id content.ID
	at place
}

// Read reads blocks and hands each to use, which is called from several
// goroutines at once; the bytes are only its until it returns. Which block comes
// when is the disk's choice: one goroutine reads every pack from front to back,
// which is what kernels read ahead for, and never waits for a hash.
//
// Use checks the bytes against the ID, in the one pass it makes over them
// (checked does, for a use that does not), and returns a content.MismatchError
// for others. Then the damaged copy is forgotten and another one tried; with
// none left the error is Read's. A block that is not there is fs.ErrNotExist.
// Anything else is the machine's trouble and says nothing about what is stored.
func (s *Store) Read(ctx context.Context, ids []content.ID, use func(i int, block []byte) error) error {
	wants, err := s.find(ids)
	if err != nil {
		return err
	}
	defer s.release(wants)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &reader{s: s, out: make(chan load), back: make(chan []byte, readDepth)}
	var workers sync.WaitGroup
	for range users {
		workers.Go(func() { s.useLoads(ctx, r, use, cancel) })
	}
	if err := r.run(ctx, coalesce(wants)); err != nil {
		cancel(err)
	}
	close(r.out)
	workers.Wait()
	return context.Cause(ctx)
}

// find places every block and holds the packs they are in.
func (s *Store) find(ids []content.ID) ([]want, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wants := make([]want, len(ids))
	for i, id := range ids {
		at, ok := s.index[id]
		if !ok {
			return nil, fmt.Errorf("segment: block %v: %w", id, fs.ErrNotExist)
		}
		wants[i] = want{i, id, at}
	}
	for _, w := range wants {
		w.at.p.readers++
	}
	return wants, nil
}

func (s *Store) release(wants []want) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range wants {
		w.at.p.readers--
	}
}

// coalesce sorts the blocks by place and joins neighbours. It leaves wants as
// they are.
func coalesce(wants []want) (groups [][]want) {
	sorted := slices.Clone(wants)
	slices.SortStableFunc(sorted, func(a, b want) int {
		if a.at.p != b.at.p {
			return slices.Compare(a.at.p.id[:], b.at.p.id[:])
		}
		return a.at.i - b.at.i
	})
	var size int64
	for k, w := range sorted {
		e := w.at.entry()
		if k > 0 && follows(sorted[k-1].at, w.at) && size+int64(e.size) <= readPiece {
			groups[len(groups)-1] = append(groups[len(groups)-1], w)
			size += int64(e.size)
			continue
		}
		groups = append(groups, []want{w})
		size = int64(e.size)
	}
	return groups
}

// follows reports whether b begins where a ends, or is a once more.
func follows(a, b place) bool { return a.p == b.p && (b.i == a.i+1 || b.i == a.i) }

// load is a group with its bytes, nil for a pack that is damaged.
type load struct {
	group []want
	off   int64 // of data in the pack
	data  []byte
	buf   []byte // goes back to the reader
}

// reader reads groups one after the other, with one pack open.
type reader struct {
	s    *Store
	out  chan load
	back chan []byte

	p *pack
	f *os.File
	// lent buffers are with the users; held is their bytes.
	lent int
	held int64
}

// run reads until the first trouble of the machine.
func (r *reader) run(ctx context.Context, groups [][]want) error {
	defer r.close()
	for _, g := range groups {
		if ctx.Err() != nil {
			return nil // the cause is known
		}
		l, err := r.read(g)
		if err != nil {
			return fmt.Errorf("segment: read: %w", err)
		}
		r.out <- l
	}
	return nil
}

// read loads one group.
func (r *reader) read(g []want) (load, error) {
	first, last := g[0].at.entry(), g[len(g)-1].at.entry()
	n := last.off + int64(last.size) - first.off
	l := load{group: g, off: first.off, buf: r.buffer(n)}
	err := r.turn(g[0].at.p)
	if err == nil {
		_, err = io.ReadFull(io.NewSectionReader(r.f, l.off, n), l.buf[:n])
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
		return l, nil // shorter than its index says, or gone: as good as damaged
	}
	l.data = l.buf[:n]
	return l, err
}

// buffer takes one that came back, or makes one while there may be more.
func (r *reader) buffer(n int64) (b []byte) {
	for r.lent == readDepth || r.lent > 0 && r.held+n > readBytes {
		b = <-r.back
		r.lent, r.held = r.lent-1, r.held-int64(cap(b))
	}
	if int64(cap(b)) < n {
		b = make([]byte, n)
	}
	r.lent, r.held = r.lent+1, r.held+int64(cap(b))
	return b[:cap(b)]
}

// turn opens a pack, unless it is open.
func (r *reader) turn(p *pack) error {
	if r.p == p {
		return nil
	}
	r.close()
	f, err := open(r.s.packPath(p.id))
	if err == nil {
		r.p, r.f = p, f
	}
	return err
}

func (r *reader) close() {
	if r.f != nil {
		r.f.Close() // only read from
	}
	r.p, r.f = nil, nil
}

// useLoads hands on what was read. After a failure it only takes it.
func (s *Store) useLoads(ctx context.Context, r *reader, use func(int, []byte) error, fail context.CancelCauseFunc) {
	for l := range r.out {
		if ctx.Err() == nil {
			if err := s.useLoad(l, use); err != nil {
				fail(err)
			}
		}
		r.back <- l.buf
	}
}

func (s *Store) useLoad(l load, use func(int, []byte) error) error {
	for _, w := range l.group {
		e := w.at.entry()
		var block []byte // nil for a damaged one: blocks are never empty
		if l.data != nil {
			block = l.data[e.off-l.off:][:e.size]
		}
		if err := s.hand(w, block, use); err != nil {
			return err
		}
	}
	return nil
}

// hand gives one block to use, from one copy after the other until use takes it.
func (s *Store) hand(w want, block []byte, use func(int, []byte) error) error {
	at := w.at
	for {
		err := error(&content.MismatchError{ID: w.id})
		if block != nil {
			err = use(w.i, block)
		}
		var bad *content.MismatchError
		if !errors.As(err, &bad) {
			return err
		}
		next, ok := s.spoilt(w.id, at.p)
		if !ok {
			return err
		}
		e := next.entry()
		block = make([]byte, e.size)
		if s.readAt(next, block) != nil {
			block = nil
		}
		at = next
	}
}

// spoilt forgets the copy of a block in p, so that it can be stored again, and
// returns the next one.
func (s *Store) spoilt(id content.ID, p *pack) (place, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unplace(id, p)
	next, ok := s.index[id]
	return next, ok
}

// checked makes a use that checks.
func checked(ids []content.ID, use func(i int, block []byte) error) func(int, []byte) error {
	return func(i int, block []byte) error {
		if content.Of(block) != ids[i] {
			return &content.MismatchError{ID: ids[i]}
		}
		return use(i, block)
	}
}

// readAt reads one block as it is.
func (s *Store) readAt(at place, buf []byte) error {
	f, err := open(s.packPath(at.p.id))
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.ReadAt(buf, at.entry().off)
	return err
}
