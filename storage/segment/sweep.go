package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"holdfast/core/content"
)

// Sweep deletes every pack none of whose blocks is wanted, and returns the bytes
// that freed. Packs being read stay for the next one. When it returns, this and
// the records dropped before are gone for good: the room may be used.
func (s *Store) Sweep(wanted func(content.ID) bool) (freed int64, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, p := range s.unwanted(wanted) {
		n, one := s.drop(p)
		freed += n
		if !errors.Is(one, ErrBusy) {
			err = errors.Join(err, one)
		}
	}
	return freed, errors.Join(err, s.settleNames())
}

// DropPack deletes one pack, unless a block that is wanted by now is read from
// it; like Sweep it is durable when it returns.
func (s *Store) DropPack(id content.ID, wanted func(content.ID) bool) (freed int64, err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	p := s.packs[id]
	s.mu.RUnlock()
	if p == nil || slices.ContainsFunc(s.blocksOf(p), wanted) {
		return 0, nil
	}
	freed, err = s.drop(p)
	return freed, errors.Join(err, s.settleNames())
}

// settleNames makes deletions durable.
func (s *Store) settleNames() error {
	return errors.Join(s.fs.SyncDir(s.path(manifestDir)), s.fs.SyncDir(s.path(packDir)))
}

// drop deletes a pack that nobody reads; the caller holds writing.
func (s *Store) drop(p *pack) (freed int64, err error) {
	if !s.retire(p) {
		return 0, ErrBusy
	}
	gone, err := s.remove(s.packPath(p.id))
	if !gone {
		return 0, err
	}
	return p.size, err
}

// unwanted lists the packs from which no wanted block is read. It asks with no
// lock held: wanted has locks of its own.
func (s *Store) unwanted(wanted func(content.ID) bool) (out []*pack) {
	s.mu.RLock()
	packs := slices.Collect(maps.Values(s.packs))
	s.mu.RUnlock()
	for _, p := range packs {
		if !slices.ContainsFunc(s.blocksOf(p), wanted) {
			out = append(out, p)
		}
	}
	return out
}

// blocksOf lists the blocks that are read from p.
func (s *Store) blocksOf(p *pack) (ids []content.ID) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for id := range s.readFrom(p) {
		ids = append(ids, id)
	}
	return ids
}

// retire forgets a pack that nobody reads; from then on nobody begins to.
func (s *Store) retire(p *pack) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.readers > 0 {
		return false
	}
	s.forget(p)
	return true
}

// Compact writes the wanted blocks of a pack to a new one and deletes the old
// one, or keeps it in quarantine where asked to. Every block is checked as it
// is copied: a damaged one is a content.MismatchError, and the old pack stays.
//
// The new pack is durable before the old one goes; a stop between leaves both,
// and Open reads the smaller one, so that the old one is garbage.
func (s *Store) Compact(ctx context.Context, id content.ID, wanted func(content.ID) bool, keep bool) (made content.ID, size int64, err error) {
	old, ids, err := s.compactable(id, wanted)
	if err != nil {
		return made, 0, err
	}
	if len(ids) == len(old.blocks) {
		return id, old.size, nil
	}
	p, temp, err := s.stage(func(put func(content.ID, []byte) error) error { return s.copyBlocks(ctx, ids, put) })
	if err != nil {
		return made, 0, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if p != nil {
		if err := s.publish(p, temp); err != nil {
			return made, 0, err
		}
		made, size = p.id, p.size
	}
	switch {
	case !s.retire(old): // somebody began to read it
		if p != nil {
			err = s.lose(made)
		}
		return content.ID{}, 0, errors.Join(ErrBusy, err)
	case keep:
		err = errors.Join(s.isolate(s.packPath(old.id)), s.trimQuarantine())
	default:
		err = s.discard(s.packPath(old.id))
	}
	return made, size, err
}

// compactable lists the wanted blocks of a pack in their order.
func (s *Store) compactable(id content.ID, wanted func(content.ID) bool) (p *pack, ids []content.ID, err error) {
	s.mu.RLock()
	if p = s.packs[id]; p != nil && p.readers > 0 {
		err = ErrBusy
	}
	s.mu.RUnlock()
	switch {
	case p == nil:
		return nil, nil, fmt.Errorf("segment: pack %v: %w", id, fs.ErrNotExist)
	case err != nil:
		return nil, nil, err
	}
	ids = slices.DeleteFunc(s.blocksOf(p), func(b content.ID) bool { return !wanted(b) })
	return p, ids, nil
}

// copyBlocks reads blocks one after the other: order is kept, memory is small,
// and nobody waits for a compaction.
func (s *Store) copyBlocks(ctx context.Context, ids []content.ID, put func(content.ID, []byte) error) error {
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return err
		}
		one := []content.ID{id}
		if err := s.Read(ctx, one, checked(one, func(_ int, b []byte) error { return put(id, b) })); err != nil {
			return err
		}
	}
	return nil
}
