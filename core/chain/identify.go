package chain

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
	"holdfast/core/wire"
)

// identify reads who is talking and names every element, without state: frame,
// hashes, keys, world. A body it cannot hold is an error and goes verbatim.
func (c *Chain) identify(x *Exchange) error {
	if err := c.cut(x); err != nil {
		return err
	}
	x.key = worldOf(x)
	x.traffic.Signed, x.traffic.Lane = x.key.Signed(), x.key.Lane
	x.traffic.Mode = session.Degraded
	if isSide(x) {
		x.traffic.Side = true
		x.home, x.path, _ = session.HomeOf(x.traffic)
		return nil
	}
	if err := c.name(x); err != nil {
		return err
	}
	return c.enterWorld(x)
}

// cut splits the body into frame and elements and checks the frame strictly;
// large fields seen before are known by hash and not read again.
func (c *Chain) cut(x *Exchange) error {
	var err error
	if x.body, err = wire.Cut(x.raw, x.codec.List()); err != nil {
		return err
	}
	sk, blobs := wire.SkeletonOf(x.body)
	if x.skeleton, err = sk.MarshalBinary(); err != nil {
		return err
	}
	known := make(map[string]content.ID, len(blobs))
	for _, b := range blobs {
		known[b.Name] = b.ID
		x.fields = append(x.fields, session.FieldRef{Name: b.Name, ID: b.ID, Hash: b.ID.String()})
		x.blobs = append(x.blobs, session.Blob{ID: b.ID, Raw: b.Raw})
	}
	if err = x.body.StrictFrame(func(name string, _ []byte) bool { return c.memory.keys.has(known[name]) }); err != nil {
		return err
	}
	for _, id := range known {
		c.memory.keys.put(id, content.ID{})
	}
	x.frame, err = x.codec.Frame(x.body)
	x.window = windowOf(x)
	return err
}

// windowOf resolves the model's window: declared by the client, configured on
// the route, or from the bundled table. It is never learned from errors.
func windowOf(x *Exchange) usage.Tokens {
	for _, v := range x.r.Header.Values("Anthropic-Beta") {
		if strings.Contains(v, "context-1m") {
			return 1_000_000
		}
	}
	if x.target.Window > 0 {
		return x.target.Window
	}
	return usage.Window(x.frame.Model)
}

// signals are the carriers of a conversation id, first wins. Ids are taken
// whole.
var signals = [...]struct{ header, signal string }{
	{"X-Claude-Code-Session-Id", "x-claude-code-session-id"},
	{"X-Session-Affinity", "x-session-affinity"},
	{"X-Opencode-Session", "x-opencode-session"},
	{"Session-Id", "session-id"},
	{"Session_id", "session_id"},
}

// maxID is the longest session or lane id in bytes. Ids are kept whole, with
// every row; real ones have some forty bytes, and a header may have a million.
const maxID = 1 << 10

// worldOf names the conversation by the first signal present. Without one, or
// with one that is no id, the world is unsigned and has no name yet.
func worldOf(x *Exchange) session.World {
	w := signalOf(x)
	if len(w.SessRaw) > maxID || len(w.Lane) > maxID {
		return session.World{Lane: session.MainLane}
	}
	return w
}

func signalOf(x *Exchange) session.World {
	w := session.World{Lane: laneOf(x)}
	for _, s := range signals {
		if v := x.r.Header[s.header]; len(v) > 0 && v[0] != "" {
			w.Signal, w.SessRaw = s.signal, v[0]
			return w
		}
	}
	if x.frame.SessionHint != "" {
		w.Signal, w.SessRaw = "metadata.user_id", x.frame.SessionHint
	}
	return w
}

// laneOf tells a subagent by an explicit carrier; never by what a prompt says.
func laneOf(x *Exchange) string {
	if v := x.r.Header.Get("X-Claude-Code-Agent-Id"); v != "" {
		return v
	}
	if x.r.Header.Get("X-Codex-Parent-Thread-Id") != "" {
		if v := x.r.Header.Get("Thread-Id"); v != "" {
			return v
		}
	}
	return session.MainLane
}

// sideOutput is the largest output of a request that cannot be a turn of work.
const sideOutput = 200

// isSide reports a request that belongs to a host but not to its conversation:
// token counts, and titles, topics and the like.
func isSide(x *Exchange) bool {
	if x.target.Count {
		return true
	}
	f := &x.frame
	return x.traffic.Signed && !f.Tools && (f.JSONFormat || f.MaxOutput > 0 && f.MaxOutput <= sideOutput)
}

// name gives every element its raw hash and its key. A head of the list equal
// to last turn's is recognised by one hash over all of it; other elements whose
// bytes were seen before are hashed but not decoded again.
func (c *Chain) name(x *Exchange) error {
	n := len(x.body.Elements)
	x.raws, x.keys, x.messages = make([]content.ID, n), make([]content.ID, n), make([]*chat.Message, n)
	for j := c.nameHead(x); j < n; j++ {
		x.raws[j] = content.Of(x.body.Element(j))
		if key, ok := c.memory.keys.get(x.raws[j], x.codec.Family()); ok {
			x.keys[j] = key
			continue
		}
		if err := c.decodeElement(x, j); err != nil {
			return err
		}
		x.keys[j] = x.messages[j].Key
		c.memory.keys.set(x.raws[j], x.codec.Family(), x.keys[j])
	}
	return nil
}

// nameHead names the elements of a head that is byte for byte last turn's and
// returns how many those are.
func (c *Chain) nameHead(x *Exchange) int {
	for _, h := range c.memory.heads(x.key, string(x.codec.Family())) {
		if h.n > len(x.body.Elements) || content.Of(x.body.Head(h.n)) != h.sum {
			continue
		}
		for j := range h.n {
			x.raws[j], x.keys[j] = h.list[j].Raw, h.list[j].Key
		}
		return h.n
	}
	return 0
}

func (c *Chain) decodeElement(x *Exchange, j int) error {
	m, err := x.codec.Element(x.body.Element(j))
	if err != nil {
		return fmt.Errorf("element %d: %w", j, err)
	}
	x.messages[j] = &m
	return nil
}

// enterWorld finds the world in memory. An unsigned request first looks for
// the one ledger it extends exactly.
func (c *Chain) enterWorld(x *Exchange) error {
	if !x.key.Signed() {
		ledger, err := c.extends(x)
		if err != nil {
			return err
		}
		x.key = session.World{SessRaw: ledger, Lane: session.MainLane}
	}
	x.world = c.memory.world(x.key)
	return nil
}

// unsignedProbe is how many prefix sums are asked for at once, longest first:
// a turn adds a few elements, so the first probe nearly always decides.
const unsignedProbe = 32

// extends returns the unsigned ledger that the inbound list extends from first
// to last, or a new name. A tie names none of the two.
func (c *Chain) extends(x *Exchange) (string, error) {
	sums := session.ChainSums(x.keys)
	for end := len(sums); end > 0; end -= unsignedProbe {
		heads, err := c.ledger.Unsigned(x.ctx, sums[max(0, end-unsignedProbe):end])
		if err != nil {
			return "", storageError{session.CauseUnreadable, err}
		}
		best, tie := longest(heads, string(x.codec.Family()), x.frame.Tools)
		if tie {
			break
		}
		if best != "" {
			return best, nil
		}
	}
	return newLedgerID(), nil
}

func longest(heads []session.Head, family string, tools bool) (ledger string, tie bool) {
	n := -1
	for i := range heads {
		h := &heads[i]
		if h.Wire != family || h.Tools != tools || h.ListLen < n {
			continue
		}
		tie = h.ListLen == n
		ledger, n = h.Ledger, h.ListLen
	}
	return ledger, tie
}

func newLedgerID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// align is stage 0 under the lock: which branch, what of the list is new, and
// whether identity is in doubt.
func (c *Chain) align(x *Exchange) error {
	x.judged = c.now().UnixMilli()
	if err := c.load(x.ctx, x.world); err != nil {
		return err
	}
	c.chooseBranch(x)
	if x.branch != nil {
		if err := c.describe(x.ctx, x, x.branch.st); err != nil {
			return err
		}
		x.prior = *x.branch.st
		x.before = x.branch.last
	}
	if err := c.returning(x); err != nil {
		return err
	}
	x.judge(c)
	c.log.Debug("aligned", "turn", x.id, "ledger", x.prior.Head.Ledger, "row", x.al.Row, "stored", len(x.prior.List), "inbound", len(x.keys),
		"rewound", len(x.al.Rewound), "appended", len(x.keys)-x.al.Appended, "replaced", len(x.al.Replaced), "removed", len(x.al.Removed), "returning", len(x.coming))
	return nil
}

// load hydrates every branch of a world once; memory is a cache of the ledger.
func (c *Chain) load(ctx context.Context, w *world) error {
	if w.loaded {
		return nil
	}
	ids, err := c.ledgersOf(ctx, w.key)
	if err != nil {
		return storageError{session.CauseUnreadable, err}
	}
	w.branches = nil
	for _, id := range ids {
		st, err := c.ledger.Load(ctx, id)
		if errors.Is(err, session.ErrUnknown) { // an unsigned one in the making
			continue
		}
		if err != nil {
			return storageError{session.CauseUnreadable, err}
		}
		for _, at := range w.faults {
			st.Head.Breaker = st.Head.Breaker.Next(at, true)
		}
		echoes, err := c.ledger.Echoes(ctx, id)
		if err != nil {
			return storageError{session.CauseUnreadable, err}
		}
		w.branches = append(w.branches, &branch{st: st, last: c.lastTurnOf(ctx, st), echoes: c.openEchoes(echoes), bypasses: c.bypass.ended.Load()})
	}
	w.loaded = true
	return nil
}

// ledgersOf names the branches of a world; an unsigned world is its ledger.
func (c *Chain) ledgersOf(ctx context.Context, w session.World) ([]string, error) {
	if !w.Signed() {
		return []string{w.SessRaw}, nil
	}
	heads, err := c.ledger.Heads(ctx, w)
	ids := make([]string, len(heads))
	for i := range heads {
		ids[i] = heads[i].Ledger
	}
	return ids, err
}

// chooseBranch aligns against the branches of the same wire, then, for a wire
// switch, core by core against the others; else it prepares a new branch.
func (c *Chain) chooseBranch(x *Exchange) {
	states := x.world.states()
	family := string(x.codec.Family())
	i, al := session.Choose(states, x.frame.Tools, family, x.keys)
	if i < 0 && x.key.Signed() {
		i, al = c.switchWire(x, states)
	}
	if i >= 0 && (x.key.Signed() || al.Row == session.RowTail && len(al.Rewound) == 0) {
		x.branch, x.al, x.create = x.world.branches[i], al, false
		return
	}
	x.newBranch(c, states)
}

// switchWire looks for a branch of another wire that keeps something.
func (c *Chain) switchWire(x *Exchange, states []*session.State) (int, session.Alignment) {
	inbound, err := x.cores()
	if err != nil {
		return -1, session.Alignment{}
	}
	for i := len(states) - 1; i >= 0; i-- {
		st := states[i]
		if st.Head.Wire == string(x.codec.Family()) || st.Head.Tools != x.frame.Tools {
			continue
		}
		stored, err := c.storedCores(x.ctx, st)
		if err != nil {
			continue
		}
		if al := session.AlignCores(stored, inbound); al.Row == session.RowWire {
			return i, al
		}
	}
	return -1, session.Alignment{}
}

// cores returns the canonical ids of the inbound elements, reasoning apart.
func (x *Exchange) cores() ([][]chat.CanonID, error) {
	out := make([][]chat.CanonID, len(x.messages))
	for j := range x.messages {
		if x.messages[j] == nil {
			m, err := x.codec.Element(x.body.Element(j))
			if err != nil {
				return nil, err
			}
			x.messages[j] = &m
		}
		for _, p := range x.messages[j].Parts {
			if p.Kind != chat.Reasoning {
				out[j] = append(out[j], p.Canon)
			}
		}
	}
	return out, nil
}

func (c *Chain) storedCores(ctx context.Context, st *session.State) ([][]chat.CanonID, error) {
	elems, err := c.ledger.Elements(ctx, st.Head.Ledger, numbers(st.List))
	if err != nil {
		return nil, err
	}
	out := make([][]chat.CanonID, len(elems))
	for i := range elems {
		for _, core := range elems[i].Cores {
			if core.Kind != chat.Reasoning {
				out[i] = append(out[i], core.Canon)
			}
		}
	}
	return out, nil
}

func numbers(list []session.Elem) []int64 {
	ns := make([]int64, len(list))
	for i := range list {
		ns[i] = list[i].N
	}
	return ns
}

// newBranch prepares the first turn of a ledger: of an unknown world (row 1),
// or of a new branch in a known one (row 4), linked to the one it left.
func (x *Exchange) newBranch(c *Chain, states []*session.State) {
	x.branch, x.create = nil, true
	x.al = session.Align(nil, x.keys)
	x.al.Row = session.RowUnknown
	h := session.Head{Ledger: newLedgerID(), World: x.key, Branch: len(states), NextRow: 1, NextElem: 1, NextRef: 1, NextBlock: 1,
		Mode: session.Degraded, Bucket: session.Bucket(c.salt, x.key.SessRaw)}
	h.Member = session.Member(h.Bucket, x.cfg.Rollout.Percent)
	if len(states) > 0 {
		x.al.Row = session.RowBranch
		h.Parent = states[len(states)-1].Head.Ledger
	}
	if !x.key.Signed() {
		h.Mode, h.Ledger = session.Unsigned, x.key.SessRaw
		if len(states) > 0 { // the list moved on between search and lock
			h.Ledger = newLedgerID()
			h.World.SessRaw, h.Branch, h.Parent = h.Ledger, 0, ""
		}
	}
	x.prior = session.State{Head: h, Kernel: fold.NewState()}
	x.prior.Head.Structure, x.prior.Head.Sum = x.prior.Kernel.Seal()
	x.before = lastTurn{}
}

// returning asks for rewound elements that come back behind the last kept one,
// each behind the one before it.
func (c *Chain) returning(x *Exchange) error {
	x.coming = nil
	h := &x.prior.Head
	if h.Rewound == 0 || x.al.Restamps() || x.al.Appended == 0 {
		return nil
	}
	kept := x.al.Kept[x.al.Appended-1]
	prev := x.prior.List[kept].N
	for j := x.al.Appended; j < len(x.keys); j++ {
		e, rows, err := c.ledger.FindRewound(x.ctx, h.Ledger, h.Epoch, x.keys[j], prev)
		if errors.Is(err, session.ErrUnknown) {
			return nil
		}
		if err != nil {
			return storageError{session.CauseUnreadable, err}
		}
		if x.coming == nil {
			x.coming = map[int]session.Returned{}
		}
		x.coming[j] = session.Returned{Element: e, Rows: rows}
		prev = e.N
	}
	return nil
}

// judge asks the gates about identity and finds the turn's home.
func (x *Exchange) judge(c *Chain) {
	h := &x.prior.Head
	if x.overWindow() || x.al.Compacts(&x.prior) {
		x.al.Row = session.RowRestamp
	}
	if x.branch != nil && x.branch.bypasses != c.bypass.ended.Load() {
		h.NeedsRestamp = cmp.Or(h.NeedsRestamp, "back from bypass")
	}
	x.flight = x.world.depart(x.flight, h.Ledger, x.keys)
	x.fire(c, session.Facts{AnchorsOut: x.al.AnchorsOut, Concurrent: x.world.collides(x.flight), SumMismatch: x.damaged()})
	x.traffic.Member = h.Member
	x.traffic.Held = h.Breaker.Blocks(x.judged) || c.groups.held(x.key.Signal, h.Wire)
	x.traffic.Restamp = x.gate.Gate != session.NoGate || x.al.Restamps() || !x.create && (h.NeedsRestamp != "" || x.prior.Red != "")
	x.home, x.path, x.rows = session.HomeOf(x.traffic)
	if x.gate.Gate != session.NoGate {
		h.NeedsRestamp = string(x.gate.Gate) + ": " + string(x.gate.Cause)
	}
}

// damaged reports rows that failed their check when they were read. Rows that
// are missing or behind the list are no fault: they are written anew.
func (x *Exchange) damaged() bool {
	return x.traffic.Rollout != session.Off && strings.HasPrefix(x.prior.Red, "check failed")
}

// overWindow reports that putting back what the client removed would pass the
// window: then its own pruning wins and the list is re-stamped.
func (x *Exchange) overWindow() bool {
	if x.al.Row != session.RowRemove && !session.HasRemoved(x.prior.Rows) {
		return false
	}
	total := usage.EstimateBytes(len(x.raw))
	gone := map[int64]bool{}
	for _, i := range x.al.Removed {
		gone[x.prior.List[i].N] = true
	}
	for i := range x.prior.Rows {
		if r := &x.prior.Rows[i]; r.Removed || gone[r.Elem] {
			total += r.Tokens
		}
	}
	return total > x.window
}
