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
	// readersInFlight overlap one read with the hashing of another.
	readersInFlight = 2
)

// want is one block to be read: the caller's number for it, and where it is.
type want struct {
	i  int
	id content.ID
	at place
}

// Read reads blocks and hands each to use, which is called from several
// goroutines at once; the bytes are only its until it returns. Which block comes
// when is the disk's choice.
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
	groups := make(chan []want)
	var workers sync.WaitGroup
	for range readersInFlight {
		workers.Go(func() { s.readGroups(ctx, groups, use, cancel) })
	}
	for _, g := range coalesce(wants) {
		select {
		case groups <- g:
		case <-ctx.Done():
		}
	}
	close(groups)
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

// readGroups is one reader; it keeps the pack of its last group open.
func (s *Store) readGroups(ctx context.Context, groups <-chan []want, use func(int, []byte) error, fail context.CancelCauseFunc) {
	var r groupReader
	defer r.close()
	for g := range groups {
		if ctx.Err() != nil {
			continue
		}
		if err := s.readGroup(&r, g, use); err != nil {
			fail(err)
		}
	}
}

// groupReader is the open file and the buffer of one reader.
type groupReader struct {
	p   *pack
	f   *os.File
	buf []byte
}

func (r *groupReader) close() {
	if r.f != nil {
		r.f.Close() // only read from
	}
}

// read fills the buffer from one pack.
func (r *groupReader) read(s *Store, p *pack, off int64, n int) ([]byte, error) {
	if r.p != p {
		r.close()
		r.p, r.f = nil, nil
		f, err := open(s.packPath(p.id))
		if err != nil {
			return nil, err
		}
		r.p, r.f = p, f
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	_, err := io.ReadFull(io.NewSectionReader(r.f, off, int64(n)), r.buf[:n])
	return r.buf[:n], err
}

func (s *Store) readGroup(r *groupReader, g []want, use func(int, []byte) error) error {
	first, last := g[0].at.entry(), g[len(g)-1].at.entry()
	data, err := r.read(s, g[0].at.p, first.off, int(last.off+int64(last.size)-first.off))
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
		data = nil // shorter than its index says, or gone: as good as damaged
	} else if err != nil {
		return fmt.Errorf("segment: read: %w", err)
	}
	for _, w := range g {
		e := w.at.entry()
		var block []byte // nil for a damaged one: blocks are never empty
		if data != nil {
			block = data[e.off-first.off:][:e.size]
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
