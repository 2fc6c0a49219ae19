package tier

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"holdfast/core/content"
	"holdfast/core/kv"
	"holdfast/core/kv/slotfile"
)

// packing is the pack of one spill under way. It passes over the engine's file
// once: a block is gathered, named, and written if it is new, while the one
// before it is on its way to the disk.
type packing struct {
	m   *Manager
	ctx context.Context
	f   *slotfile.File

	claimed, needed kv.Bytes
	frees           []func() // of claims and holds
	fresh           map[kv.BlockID]bool
	unread          error // why the engine's file could not be read
}

// claimStep is how many pieces are claimed at a time when a spill turns out
// larger than expected: more would evict for bytes that may never come.
const claimStep = 8

// claim asks for room and makes it.
func (p *packing) claim(n kv.Bytes) error {
	free, err := p.m.reserve(p.ctx, kv.Claim{Write: n, Growth: n})
	if err != nil {
		return err
	}
	p.claimed += n
	p.frees = append(p.frees, free)
	return nil
}

// release gives claims and holds back, once.
func (p *packing) release() {
	for _, free := range p.frees {
		free()
	}
	p.frees = nil
}

// blame marks an error as the store's unless it is a refusal or the engine's
// file could not be read.
func (p *packing) blame(err error) error {
	var refused *Refusal
	if p.unread != nil || errors.As(err, &refused) {
		return err
	}
	return &storeError{err}
}

// write makes the pack and returns the manifest of its state, with the size of
// the file, 0 when nothing was new.
func (p *packing) write(n int, keep []kv.Boundary) (man *kv.Manifest, size kv.Bytes, err error) {
	_, wrote, err := p.m.segments.WritePack(func(put func(content.ID, []byte) error) (err error) {
		out := startPipe(put, &watcher{m: p.m, left: p.claimed})
		defer func() { err = errors.Join(err, out.close()) }()
		man, err = p.pass(n, keep, out)
		return err
	})
	if err == nil && wrote > 0 {
		p.m.booked(kv.Bytes(wrote))
	}
	return man, kv.Bytes(wrote), err
}

// pass names every piece of the state and hands on the new ones: rows first,
// then what the state has beside them.
func (p *packing) pass(n int, keep []kv.Boundary, out *pipe) (*kv.Manifest, error) {
	refused := error(nil)
	man, err := p.f.Manifest(n, keep, func(_ int, id kv.BlockID, b []byte) error {
		refused = p.offer(id, b, out)
		return refused
	})
	if err != nil {
		if refused == nil {
			p.unread = err
		}
		return nil, err
	}
	pieces := man.Pieces()
	for i := len(pieces) - len(man.Boundaries); i < len(pieces); i++ {
		b, err := p.f.Piece(man, i, nil)
		if err != nil {
			p.unread = err
			return nil, err
		}
		if err := p.offer(pieces[i].ID, b, out); err != nil {
			return nil, err
		}
	}
	return man, nil
}

// offer writes a piece unless it is stored. It is held before the store is
// asked: the other way round an eviction between the two could take it away.
func (p *packing) offer(id kv.BlockID, b []byte, out *pipe) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	p.frees = append(p.frees, p.m.hold(id))
	if p.fresh[id] || p.m.stored(id) {
		return nil
	}
	p.fresh[id] = true
	if p.needed += kv.Bytes(len(b)) + p.m.cost.Piece; p.needed > p.claimed {
		if err := p.claim(claimStep * (kv.Bytes(len(b)) + p.m.cost.Piece)); err != nil {
			return err
		}
	}
	return out.send(content.ID(id), b)
}

// pipe writes blocks beside whoever makes them, in their order.
type pipe struct {
	put    func(content.ID, []byte) error
	watch  *watcher
	in     chan chunk
	spare  chan []byte
	done   chan error
	failed atomic.Bool
}

type chunk struct {
	id   content.ID
	data []byte
}

// pipeDepth blocks are in memory at once, beside the one being made.
const pipeDepth = 2

func startPipe(put func(content.ID, []byte) error, w *watcher) *pipe {
	p := &pipe{put: put, watch: w, in: make(chan chunk, pipeDepth), spare: make(chan []byte, pipeDepth), done: make(chan error, 1)}
	for range pipeDepth {
		p.spare <- nil
	}
	go p.run()
	return p
}

// run writes until the first failure, and takes what comes after it. It goes
// behind like the worker it writes for: together they would be a core's worth.
func (p *pipe) run() {
	stepBehind()
	var err error
	for c := range p.in {
		if err == nil {
			if err = p.write(c); err != nil {
				p.failed.Store(true)
			}
		}
		p.spare <- c.data
	}
	p.done <- err
}

// write makes a panic an error: this goroutine has nobody above it to contain
// one.
func (p *pipe) write(c chunk) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("tier: internal error: writing a block panicked: %v", v)
		}
	}()
	return errors.Join(p.put(c.id, c.data), p.watch.wrote(kv.Bytes(len(c.data))))
}

// send copies a block for the writer and waits only when it is behind. After a
// failure it returns errPipe; close has the reason.
func (p *pipe) send(id content.ID, b []byte) error {
	if p.failed.Load() {
		return errPipe
	}
	p.in <- chunk{id, append((<-p.spare)[:0], b...)}
	return nil
}

var errPipe = errors.New("tier: the pack could not be written")

// close waits for what was sent.
func (p *pipe) close() error {
	close(p.in)
	return <-p.done
}
