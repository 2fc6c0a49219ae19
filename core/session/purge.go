package session

import "holdfast/core/fold"

// Spared are the elements whose originals must stay: folds that are not over
// may still be opened, or open by themselves.
func Spared(k *fold.State) map[int64]bool {
	spared := map[int64]bool{}
	for i := range k.Blocks {
		if b := &k.Blocks[i]; b.Status != fold.Dead {
			for _, n := range k.Effective(b.ID) {
				spared[n] = true
			}
		}
	}
	return spared
}

// PurgePlan says from now on that the originals of folds are gone. Check is nil
// where the rows were not current before.
type PurgePlan struct {
	Base  int64 // version it was planned from
	Head  Head
	Check *Checkpoint
}

// MakePurge plans what is said when the originals of elements are deleted: the
// folds that are over and held any of them are stamped. last is the newest
// checkpoint where it seals the session as it is, else nil. There is nothing to
// say, and no plan, where no such fold is left.
func MakePurge(h Head, k fold.State, last *Checkpoint, gone map[int64]bool, now int64) *PurgePlan {
	next, events := fold.PurgeBlocks(k, over(&k, gone))
	if len(events) == 0 {
		return nil
	}
	p := &PurgePlan{Base: h.Version}
	h.Version++
	h.Structure, h.Sum = next.Seal()
	h.StructureVersion = next.Structure
	if last != nil {
		ck := *last
		h.HeadSeq++
		ck.Seq, ck.Reason, ck.Cause, ck.CreatedAt = h.HeadSeq, string(fold.Purge), "", now
		ck.Meta.Version, ck.Meta.Events = h.Version, events
		ck.Meta.Kernel = KernelSeal{h.StructureVersion, h.Sum.String()}
		p.Check = &ck
	}
	p.Head = h
	return p
}

// over are the folds that ended and held an element that goes.
func over(k *fold.State, gone map[int64]bool) (ids []int64) {
	for i := range k.Blocks {
		b := &k.Blocks[i]
		if b.Status != fold.Dead || b.Gone {
			continue
		}
		for _, n := range k.Effective(b.ID) {
			if gone[n] {
				ids = append(ids, b.ID)
				break
			}
		}
	}
	return ids
}
