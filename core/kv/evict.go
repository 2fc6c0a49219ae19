package kv

import (
	"math"
	"slices"
	"time"
)

// HalfLife is the time in which a use comes to count half: a session of
// yesterday is worth half of today's, one of last week almost nothing.
const HalfLife = 24 * time.Hour

// Now is the weight of the uses at a time. A clock that went back ages nothing.
func (u Use) Now(now time.Time) float64 {
	age := max(0, now.Sub(u.At))
	return u.Weight * math.Exp2(-float64(age)/float64(HalfLife))
}

// Again books another use.
func (u Use) Again(now time.Time, serial uint64) Use {
	at := u.At
	if now.After(at) {
		at = now
	}
	return Use{Weight: u.Now(now) + 1, At: at, Serial: max(u.Serial, serial)}
}

// Compaction bounds. Over half dead, a pack frees more than its rewriting
// writes; below, only when nothing else is left.
const deadShare = 0.5

// PlanEvict lists the steps that bring a store down to a goal: the manifest whose
// loss costs least per byte it alone owns, then the next. What a pack no longer
// holds for anyone is freed with the pack, or by rewriting it.
//
// A manifest is worth the seconds it saves times how often and lately it was
// used; bytes that others hold too are charged to it by its share. One that owns
// no bytes of its own frees nothing: it goes after everything that shares its
// blocks. Stale ones go first. Pinned ones never go; the newest goes only when
// the store, and what is about to be written, would stay above the budget with it.
func PlanEvict(c Contents, g Goal) Plan {
	p := newPlanner(c, g)
	p.evict()
	if p.newest >= 0 && p.used+g.Incoming > g.Budget {
		p.manifests[p.newest].stays = false
		p.evict()
	}
	return p.plan()
}

// PlanCompact frees what no manifest names: packs that are dead, and packs that
// are mostly dead. It removes no manifest.
func PlanCompact(c Contents, g Goal) Plan {
	p := newPlanner(c, g)
	p.deleteDead()
	for p.compact(deadShare) {
	}
	return p.plan()
}

// evict removes manifests until deleting and rewriting packs can do the rest.
// Packs are rewritten last, when most of them has died.
func (p *planner) evict() {
	for {
		p.deleteDead()
		done := !p.goal.All && p.used <= p.goal.Target
		near := !p.goal.All && p.used-p.reclaimable() <= p.goal.Target
		switch {
		case done:
			return
		case near && p.compact(deadShare):
		case p.removeWorst():
		default:
			for p.used > p.goal.Target && p.compact(0) {
			}
			return
		}
	}
}

// planner is a model of the store that steps are tried on. Pieces and manifests
// are numbered; a removed manifest leaves its number.
type planner struct {
	goal   Goal
	cost   PackCost
	before Bytes
	used   Bytes
	steps  []Step
	gone   int

	manifests []held
	newest    int       // kept while it may; −1 for none
	holders   [][]int32 // manifests that name a piece, by piece
	within    [][]int32 // packs that hold a piece, by piece
	sizes     []Bytes   // by piece
	kept      []bool    // held by someone else, by piece
	packs     []packed
}

// held is a manifest in the model.
type held struct {
	Stored
	pieces []int32
	stays  bool // newest, pinned, or of another model
	gone   bool
	score  score
	dirty  bool
}

// packed is a pack in the model.
type packed struct {
	PackFile
	pieces []int32
	live   int   // pieces that a manifest names
	bytes  Bytes // of these
	gone   bool
}

// score orders victims: the lowest goes first.
type score struct {
	shared bool    // owns no bytes of its own
	alone  float64 // seconds times uses lost per byte freed
	worth  float64 // the same, or that of what shares all its bytes
}

func newPlanner(c Contents, g Goal) *planner {
	p := &planner{goal: g, cost: c.Cost, used: c.Other, newest: -1}
	number := map[BlockID]int32{}
	p.addManifests(c.Manifests, number)
	for _, id := range c.Held {
		p.kept[p.number([]Piece{{ID: id}}, number)[0]] = true
	}
	p.addPacks(c.Packs, number)
	p.before = p.used
	return p
}

// number gives every piece a number, the same for equal pieces.
func (p *planner) number(list []Piece, known map[BlockID]int32) []int32 {
	out := make([]int32, len(list))
	for i, x := range list {
		n, ok := known[x.ID]
		if !ok {
			n = int32(len(known))
			known[x.ID] = n
			p.sizes, p.kept = append(p.sizes, 0), append(p.kept, false)
			p.holders, p.within = append(p.holders, nil), append(p.within, nil)
		}
		p.sizes[n] = max(p.sizes[n], x.Size)
		out[i] = n
	}
	return out
}

// addManifests numbers the manifests. The latest used of the store is kept,
// whichever model's it is.
func (p *planner) addManifests(list []Stored, known map[BlockID]int32) {
	typical := typicalPerToken(list)
	for i, m := range list {
		if !isCost(m.PerToken) {
			m.PerToken = typical
		}
		other := p.goal.Model != nil && *p.goal.Model != m.Model
		h := held{Stored: m, pieces: unique(p.number(m.Pieces, known)), dirty: true, stays: m.Pinned || other}
		for _, n := range h.pieces {
			p.holders[n] = append(p.holders[n], int32(i))
		}
		p.manifests = append(p.manifests, h)
		p.used += m.Bytes
		if p.newest < 0 || m.Use.Serial > list[p.newest].Use.Serial {
			p.newest = i
		}
	}
	if p.newest >= 0 && (p.goal.All || p.manifests[p.newest].stays) {
		p.newest = -1
	}
	if p.newest >= 0 {
		p.manifests[p.newest].stays = true
	}
}

func (p *planner) addPacks(list []PackFile, known map[BlockID]int32) {
	for i, f := range list {
		k := packed{PackFile: f, pieces: p.number(f.Pieces, known)}
		for _, n := range k.pieces {
			p.within[n] = append(p.within[n], int32(i))
			if p.alive(n) {
				k.live, k.bytes = k.live+1, k.bytes+p.sizes[n]
			}
		}
		p.packs = append(p.packs, k)
		p.used += f.Size
	}
}

func unique(list []int32) []int32 {
	slices.Sort(list)
	return slices.Compact(list)
}

// isCost reports whether a measured cost is one.
func isCost(s float64) bool { return s > 0 && !math.IsInf(s, 1) }

// typicalPerToken stands in where no prefill was measured.
func typicalPerToken(list []Stored) float64 {
	sum, n := 0.0, 0
	for _, m := range list {
		if isCost(m.PerToken) {
			sum, n = sum+m.PerToken, n+1
		}
	}
	if n == 0 {
		return 1
	}
	return sum / float64(n)
}

// removeWorst removes the manifest with the lowest score, if one may go.
func (p *planner) removeWorst() bool {
	p.rescore()
	worst := -1
	for i := range p.manifests {
		m := &p.manifests[i]
		if m.gone || m.stays {
			continue
		}
		if worst < 0 || m.before(&p.manifests[worst]) {
			worst = i
		}
	}
	if worst < 0 {
		return false
	}
	p.remove(worst)
	return true
}

// before orders victims: stale ones, then by what is lost per byte freed; in
// ties the shared last, then the one used longest ago, then by name, so that
// equal stores give equal plans.
func (m *held) before(o *held) bool {
	switch {
	case m.Stale != o.Stale:
		return m.Stale
	case m.score.worth != o.score.worth:
		return m.score.worth < o.score.worth
	case m.score.shared != o.score.shared:
		return o.score.shared
	case m.Use.Serial != o.Use.Serial:
		return m.Use.Serial < o.Use.Serial
	}
	return string(m.ID[:]) < string(o.ID[:])
}

// rescore brings the scores up to date of manifests whose pieces are shared
// otherwise than before; then of those that own nothing, which follow the rest.
func (p *planner) rescore() {
	for i := range p.manifests {
		m := &p.manifests[i]
		if m.dirty && !m.gone {
			m.score = p.scoreOf(m)
		}
	}
	for i := range p.manifests {
		m := &p.manifests[i]
		if !m.gone && m.score.shared {
			m.score.worth = p.worthAfter(m)
		}
		m.dirty = false
	}
}

// scoreOf is what removing m loses per byte it frees. Bytes are charged by share,
// and so are the seconds they save.
func (p *planner) scoreOf(m *held) score {
	var all, own, charged float64
	for _, n := range m.pieces {
		size, refs := float64(p.sizes[n]), len(p.holders[n])
		all += size
		charged += size / float64(refs)
		if refs == 1 && !p.kept[n] {
			own += size
		}
	}
	if all == 0 {
		return score{}
	}
	worth := m.Use.Now(p.goal.Now) * m.PerToken * float64(m.Tokens) * charged / all
	if own == 0 {
		return score{shared: true, alone: worth / all}
	}
	return score{alone: worth / own, worth: worth / own}
}

// worthAfter is the worth of a manifest without bytes of its own: no less than
// that of everything that shares all its blocks. These are the holders of its
// least shared piece, the last block of its chain.
func (p *planner) worthAfter(m *held) float64 {
	last := slices.MinFunc(m.pieces, func(a, b int32) int { return len(p.holders[a]) - len(p.holders[b]) })
	worth := m.score.alone
	for _, h := range p.holders[last] {
		worth = max(worth, p.manifests[h].score.alone)
	}
	return worth
}

// remove takes a manifest out: its file is freed at once, its pieces with their
// packs.
func (p *planner) remove(i int) {
	m := &p.manifests[i]
	m.gone = true
	for _, n := range m.pieces {
		p.holders[n] = slices.DeleteFunc(p.holders[n], func(h int32) bool { return h == int32(i) })
		for _, h := range p.holders[n] {
			p.manifests[h].dirty = true
		}
		if !p.alive(n) {
			p.bury(n)
		}
	}
	p.gone++
	p.step(Step{Kind: RemoveManifest, Manifest: m.ID, Tokens: m.Tokens, Session: m.Session, Frees: m.Bytes, Why: m.why()})
}

// bury counts a piece that nobody names any more out of its packs.
func (p *planner) bury(piece int32) {
	for _, i := range p.within[piece] {
		p.packs[i].live--
		p.packs[i].bytes -= p.sizes[piece]
	}
}

func (m *held) why() string {
	switch {
	case m.Stale:
		return "no engine in use can read it"
	case m.score.shared:
		return "holds nothing that others do not"
	}
	return "saves least for its bytes"
}

func (p *planner) step(s Step) {
	p.used += s.Writes - s.Frees
	s.Used = p.used
	p.steps = append(p.steps, s)
}

// deleteDead deletes the packs that no manifest needs.
func (p *planner) deleteDead() {
	for i := range p.packs {
		k := &p.packs[i]
		if k.gone || k.Held || k.live > 0 {
			continue
		}
		k.gone = true
		p.step(Step{Kind: DeletePack, Pack: k.ID, Frees: k.Size, Why: "nothing in it is named any more"})
	}
}

func (p *planner) alive(piece int32) bool { return p.kept[piece] || len(p.holders[piece]) > 0 }

// frees is what rewriting a pack would free, if more than a share of it.
func (p *planner) frees(k *packed, share float64) Bytes {
	n := k.Size - p.cost.Of(k.live, k.bytes)
	if k.gone || k.Held || float64(n) <= share*float64(k.Size) {
		return 0
	}
	return n
}

// reclaimable is what rewriting the packs that are mostly dead would free.
func (p *planner) reclaimable() (n Bytes) {
	for i := range p.packs {
		n += p.frees(&p.packs[i], deadShare)
	}
	return n
}

// compact rewrites the pack that frees most, of those with more than a share
// dead. Its new file is written first and must fit beside the old one.
func (p *planner) compact(share float64) bool {
	best, most := -1, Bytes(0)
	for i := range p.packs {
		k := &p.packs[i]
		size := p.cost.Of(k.live, k.bytes)
		fits := p.used+size <= p.goal.Budget && size <= p.goal.Spare
		if n := p.frees(k, share); n > most && fits {
			best, most = i, n
		}
	}
	if best < 0 {
		return false
	}
	p.rewrite(&p.packs[best])
	return true
}

func (p *planner) rewrite(k *packed) {
	s := Step{Kind: CompactPack, Pack: k.ID, Writes: p.cost.Of(k.live, k.bytes), Frees: k.Size, Why: "mostly dead: what is alive moves"}
	var live []int32
	for i, piece := range k.pieces {
		if p.alive(piece) {
			live = append(live, piece)
			s.Live = append(s.Live, k.Pieces[i])
		}
	}
	k.pieces, k.Pieces, k.Size = live, s.Live, s.Writes
	p.step(s)
}

func (p *planner) plan() Plan {
	return Plan{
		Goal: p.goal, Before: p.before, After: p.used, Steps: p.steps,
		Manifests: len(p.manifests), Removed: p.gone, Reached: p.used <= p.goal.Target,
	}
}
