package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/usage"
	"holdfast/core/wire"
)

// holdsTools reports whether our tools can stand in the request: it offers
// tools in a form ours can take, and asks for one reply.
func (x *Exchange) holdsTools() bool {
	choices, err := x.body.Get("n").Int()
	return x.frame.Tools && !x.frame.OldTools && err == nil && choices <= 1
}

// describe reads, once after a load, what the kernel must know of a branch's
// elements. Where stored bytes cannot be read, the client's do as well; an
// element nobody can read is never folded.
func (c *Chain) describe(ctx context.Context, x *Exchange, st *session.State) error {
	ns := st.Undescribed()
	if len(ns) == 0 {
		return nil
	}
	elems, err := c.ledger.Elements(ctx, st.Head.Ledger, ns)
	if err != nil {
		return storageError{session.CauseUnreadable, err}
	}
	if st.Meta == nil {
		st.Meta = make(map[int64]fold.Element, len(ns))
	}
	for i := range elems {
		e := &elems[i]
		m, err := c.stored(ctx, e, wire.Family(st.Head.Wire))
		if err != nil {
			m = c.inboundOf(x, e.Key)
		}
		if m == nil {
			c.log.Error("an element cannot be read", "ledger", st.Head.Ledger, "element", e.N, "err", err)
			st.Meta[e.N] = fold.Element{N: e.N, Key: e.Key, Role: e.Role, Tokens: e.Tokens, Fixed: fold.Definition}
			continue
		}
		st.Meta[e.N] = session.Describe(e, m)
	}
	return nil
}

// inboundOf is the client's own element with a key, nil for none.
func (c *Chain) inboundOf(x *Exchange, key content.ID) *chat.Message {
	for j := range x.keys {
		if x.keys[j] != key {
			continue
		}
		if m, err := x.codec.Element(x.body.Element(j)); err == nil {
			return &m
		}
	}
	return nil
}

// stored decodes an element's stored bytes. What was archived before a wire
// switch is spelled as the other wire spells it.
func (c *Chain) stored(ctx context.Context, e *session.Element, family wire.Family) (*chat.Message, error) {
	raw, err := c.ledger.Blob(ctx, e.Blob)
	if err != nil {
		return nil, fmt.Errorf("element %d: %w", e.N, err)
	}
	m, err := c.codecs[family].Element(raw)
	for f, codec := range c.codecs {
		if f != family && (err != nil || m.Key != e.Key) {
			m, err = codec.Element(raw)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("element %d: %w", e.N, err)
	}
	return &m, nil
}

// folds reports whether the kernel has a say in a session: it is armed, and
// folding is on or has left folds behind, which the model must still be able to
// open.
func (x *Exchange) folds(k *fold.State) bool {
	return k.Armed && (x.cfg.Fold.Enabled || len(k.Blocks)+len(k.Overlays) > 0)
}

// kernel asks the fold kernel what the model is to see, and plans what it
// changes. An event that names no exact set of rows is not made (gate R2).
func (c *Chain) kernel(x *Exchange) error {
	x.nudge, x.bodies = "", nil
	state := x.plan.Kernel()
	if x.cfg.Fold.Enabled && x.holdsTools() {
		state = fold.Arm(state, true, x.frame.ToolNames)
	}
	if !x.folds(&state) {
		return nil
	}
	rhythm := fold.OpenRhythm(x.prior.Head.Rhythm)
	x.limits = c.limits(x, &rhythm)
	_, state, rhythm, events, nudge := fold.Rewrite(x.plan.Elements(), state, rhythm, x.limits, usage.Usage{})
	err := x.plan.Fold(session.Kernel{State: state, Rhythm: rhythm, Events: events})
	if errors.Is(err, session.ErrAddress) {
		x.fire(c, session.Facts{EventUnaddressed: true})
		x.plan.Commit.Turn.Path, x.plan.Commit.Turn.Gate = x.path, string(x.gate.Gate)
		return nil
	}
	if err != nil {
		return err
	}
	x.bodies = bodiesOf(events)
	if nudge != nil {
		x.nudge = nudge.Text
	}
	return nil
}

// bodiesOf are the texts of the blocks that events make.
func bodiesOf(events []fold.Event) map[content.ID]fold.Body {
	out := map[content.ID]fold.Body{}
	for i := range events {
		if b := events[i].Body; b != nil {
			_, id := b.Text()
			out[id] = *b
		}
	}
	return out
}

// limits are what the kernel decides this turn under. Both wires share their
// window between request and reply.
func (c *Chain) limits(x *Exchange, rhythm *fold.Rhythm) fold.Limits {
	f := &x.cfg.Fold
	return fold.Limits{
		Window: x.window, Reserve: min(usage.Tokens(x.frame.MaxOutput), x.window/2), Frame: x.frameTokens(),
		Growth: f.GrowthTokens, Pressure: f.WindowPercent, Emergency: f.EmergencyPercent,
		Economics: f.Economics, Terms: c.terms(x, rhythm), Protect: f.ProtectTools,
		Forced: x.frame.Choice != wire.ChoiceFree, HeldOut: !f.Enabled || heldOut(x.prior.Head.Bucket, f.HoldoutPercent),
	}
}

// frameTokens estimates everything of the request that is no element, with
// what we add.
func (x *Exchange) frameTokens() usage.Tokens {
	n := len(x.raw) + len(fold.Paragraph)
	for _, e := range x.body.Elements {
		n -= e.Len()
	}
	for _, t := range x.tools.json(x.shape(), "") {
		n += len(t)
	}
	return usage.EstimateBytes(n)
}

// heldOut reports whether a session is among those that are measured without
// folds: the top of the buckets, so that membership in the rollout, which takes
// them from the bottom, says nothing about it.
func heldOut(bucket int, percent float64) bool {
	return percent > 0 && !session.Member(bucket, 100-percent)
}

// shape is how this wire spells a tool.
func (x *Exchange) shape() fold.Shape { return fold.Shape(x.codec.Family()) }

// tools keeps the JSON of our tools, which is the same on every turn. It has one
// entry for each wire, and for each suffix that a name clash led to.
type tools struct{ known sync.Map }

type toolsKey struct {
	shape  fold.Shape
	suffix string
}

func (t *tools) json(shape fold.Shape, suffix string) []json.RawMessage {
	key := toolsKey{shape, suffix}
	if v, ok := t.known.Load(key); ok {
		return v.([]json.RawMessage)
	}
	v, _ := t.known.LoadOrStore(key, fold.ToolsJSON(shape, suffix))
	return v.([]json.RawMessage)
}

// ownTools are the names our tools have in this session.
func (x *Exchange) ownTools() []string {
	tools := fold.Tools(x.plan.Next.Kernel.Suffix)
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	return names
}
