package chain

import (
	"context"
	"errors"
	"fmt"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// What a model reads when its call could not be carried out by no fault of its
// own.
const (
	notStored  = "FAILED: this could not be stored just now. Go on with the task.\n"
	movedOn    = "FAILED: the conversation moved on meanwhile. Go on with the task.\n"
	unreadable = "FAILED: the record of this conversation cannot be read just now. Go on with the task.\n"
)

// answer carries out calls of our own tools, in order, and returns what the
// model is to read. stuck says that all of them failed the same way before.
func (c *Chain) answer(ctx context.Context, x *Exchange, calls []wire.Call) (results []wire.Result, stuck bool) {
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	stuck = true
	for _, call := range calls {
		out, err := c.carryOut(ctx, x, call)
		if errors.Is(err, session.ErrStale) { // another turn was committed meanwhile
			x.world.forget()
			if err = c.load(ctx, x.world); err == nil {
				out, err = c.carryOut(ctx, x, call)
			}
		}
		if err != nil {
			out = fold.Outcome{Result: failure(err), Failed: true}
			c.log.Error("a call of our own tools failed", "turn", x.id, "tool", call.Name, "err", err)
		}
		stuck = stuck && out.Stuck
		results = append(results, wire.Result{CallID: call.ID, Text: out.Result, Failed: out.Failed})
	}
	return results, stuck
}

func failure(err error) string {
	var se storageError
	switch {
	case errors.Is(err, session.ErrStale):
		return movedOn
	case errors.As(err, &se) && se.cause == session.CauseUnreadable:
		return unreadable
	}
	return notStored
}

// holder is the branch of a committed exchange, read again where memory has
// let it go.
func (c *Chain) holder(ctx context.Context, x *Exchange) (*branch, error) {
	if !x.committed {
		return nil, storageError{session.CauseStorage, errors.New("the turn is not in the ledger")}
	}
	if err := c.load(ctx, x.world); err != nil {
		return nil, err
	}
	for _, b := range x.world.branches {
		if b.st.Head.Ledger == x.next.Head.Ledger {
			return b, c.describe(ctx, x, b.st)
		}
	}
	return x.branch, nil // an unsigned fork, whose world is another
}

// carryOut runs one call against the branch as it is now and commits what it
// changes before anybody is told.
func (c *Chain) carryOut(ctx context.Context, x *Exchange, call wire.Call) (fold.Outcome, error) {
	b, err := c.holder(ctx, x)
	if err != nil {
		return fold.Outcome{}, err
	}
	st := b.st
	elems := st.Elements()
	if x.path != session.PathSnapshot { // what the client took away was not shown
		elems = st.Shown()
	}
	s := fold.Session{Elements: elems, NextRef: st.Head.NextRef, State: st.Kernel,
		Rhythm: fold.OpenRhythm(st.Head.Rhythm), Limits: x.limits}
	use := fold.ToolUse{Name: call.Name, Args: call.Args}
	texts, err := c.texts(ctx, st, s.Needs(use))
	if err != nil {
		return fold.Outcome{}, storageError{session.CauseUnreadable, err}
	}
	out := s.Run(use, texts)
	return out, c.commitCall(ctx, x, b, call, &out)
}

// commitCall makes what a call changed durable. A call that is repeated gets
// the outcome kept from the first time.
func (c *Chain) commitCall(ctx context.Context, x *Exchange, b *branch, call wire.Call, out *fold.Outcome) error {
	if len(out.Events) == 0 {
		b.st.Head.Rhythm = out.Rhythm.Text()
		return nil
	}
	k := session.Kernel{State: out.State, Rhythm: out.Rhythm, Events: out.Events}
	plan, err := session.MakeFold(b.st, k, session.FoldCall{Now: c.now().UnixMilli(), Cause: causeID(x, call), Outcome: []byte(out.Result),
		Rows: x.traffic.Rollout != session.Off && b.st.Red == "" && b.st.Head.NeedsRestamp == ""})
	if err != nil {
		return err
	}
	var known *session.KnownCause
	switch err := c.ledger.Commit(ctx, &plan.Commit); {
	case errors.As(err, &known):
		out.Result = string(known.Outcome)
		return nil
	case errors.Is(err, session.ErrStale):
		return err
	case err != nil:
		return storageError{session.CauseStorage, err}
	}
	b.st = plan.Settle()
	b.served = 0 // the next turns are compared again
	if b.st.Head.ListTurn == x.id {
		x.next = b.st
	}
	x.folded = append(x.folded, out.Blocks...)
	c.memory.grew(x.world)
	return nil
}

// causeID names a call: the attempt it was made in, its id and its arguments.
func causeID(x *Exchange, call wire.Call) string {
	return fmt.Sprintf("%d:%s:%s", x.id, call.ID, content.Of(call.Args).String()[:16])
}

// texts reads what a call is answered from.
func (c *Chain) texts(ctx context.Context, st *session.State, need fold.Need) (fold.Texts, error) {
	t := fold.Texts{Elements: map[int64]*chat.Message{}, Bodies: map[content.ID]fold.Body{}}
	if len(need.Elements) > 0 {
		elems, err := c.ledger.Elements(ctx, st.Head.Ledger, need.Elements)
		if err != nil {
			return t, err
		}
		for i := range elems {
			m, err := c.stored(ctx, &elems[i], wire.Family(st.Head.Wire))
			if errors.Is(err, session.ErrUnknown) || errors.Is(err, session.ErrNotKept) {
				continue
			}
			if err != nil {
				return t, err
			}
			t.Elements[elems[i].N] = m
		}
	}
	for _, id := range need.Bodies {
		body, err := bodyOf(ctx, c.ledger, id)
		if err != nil {
			return t, err
		}
		t.Bodies[id] = body
	}
	var err error
	if need.Documents {
		t.Documents, t.Index, err = c.searchable(ctx, st)
	}
	return t, err
}

// documents are everything said in a world, folded or not, the branches it left
// included; their refs are another branch's and are not shown.
func (c *Chain) documents(ctx context.Context, st *session.State, heads []session.Head) ([]fold.Doc, error) {
	var docs []fold.Doc
	for i := range heads {
		id := heads[i].Ledger
		elems, err := c.ledger.Stored(ctx, id)
		if err != nil {
			return nil, err
		}
		for i := range elems {
			m, err := c.stored(ctx, &elems[i], wire.Family(st.Head.Wire))
			if err != nil {
				continue // gone meanwhile
			}
			docs = append(docs, docOf(&elems[i], m, id == st.Head.Ledger))
		}
	}
	return append(docs, c.blockDocs(ctx, st)...), nil
}

func docOf(e *session.Element, m *chat.Message, mine bool) fold.Doc {
	d := fold.Doc{Role: string(e.Role)}
	if mine && e.Ref != 0 {
		d.ID = fold.Ref{Number: e.Ref}.String()
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case chat.Text, chat.ToolResult:
			text, _ := fold.Readable(m, p.Text)
			d.Text += text + "\n"
		case chat.ToolCall:
			d.Text += p.Tool + " " + p.Text + "\n"
		}
	}
	return d
}

func (c *Chain) blockDocs(ctx context.Context, st *session.State) (docs []fold.Doc) {
	for i := range st.Kernel.Blocks {
		b := &st.Kernel.Blocks[i]
		if b.Status == fold.Dead {
			continue
		}
		if body, err := bodyOf(ctx, c.ledger, b.Body); err == nil {
			docs = append(docs, fold.Doc{ID: fold.Ref{Number: b.ID, Block: true}.String(), Role: "block", Text: body.Topic + "\n" + body.Summary})
		}
	}
	return docs
}

// nextBody renders the conversation as it stands now with the private rounds so
// far. The nudge is gone as soon as something was folded; else it stays, so
// that the prefix does.
func (c *Chain) nextBody(x *Exchange, rounds []wire.Private) ([]byte, error) {
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	st, view := x.next, x.view
	if !x.committed {
		st = x.plan.Next
	}
	if len(x.folded) > 0 {
		var err error
		if view, err = c.viewNow(x); err != nil {
			return nil, err
		}
	}
	slots, err := c.slots(x.ctx, x, st, view)
	if err != nil {
		return nil, err
	}
	add := x.additions(&st.Kernel)
	add.Rounds = rounds
	if len(x.folded) > 0 {
		add.Nudge = ""
	}
	out, err := x.codec.Render(x.body, slots, add)
	if err != nil {
		return nil, err
	}
	return out.Bytes(x.body), nil
}

// viewNow is the view of the exchange's list after folds.
func (c *Chain) viewNow(x *Exchange) ([]session.ViewItem, error) {
	if x.path == session.PathSnapshot && x.next.Red == "" && x.next.Head.ListTurn == x.id {
		return snapshotView(x.next)
	}
	return session.FullView(x.next.List, x.next.Meta, x.next.Kernel), nil
}

// reported takes a round's exact counts into the kernel's rhythm, before its
// calls are run; the last round of a reply goes into the books of the folds.
func (c *Chain) reported(x *Exchange, info wire.ReplyInfo, last bool) {
	if !x.committed || !info.Counts.Seen {
		return
	}
	u := countsOf(info.Counts, 0, 0)
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	b, err := c.holder(x.ctx, x)
	if err != nil || b == nil || !b.st.Kernel.Armed {
		return
	}
	r := fold.OpenRhythm(b.st.Head.Rhythm).Report(u)
	if last {
		r = r.Book(u, x.limits.Terms)
	}
	b.st.Head.Rhythm = r.Text()
}

// keepEcho stores the private rounds of a reply until the client sends the
// element they belong to.
func (c *Chain) keepEcho(x *Exchange, e *echo) {
	x.world.mu.Lock()
	defer x.world.mu.Unlock()
	b, err := c.holder(x.ctx, x)
	if err != nil {
		c.log.Error("private rounds were not kept", "turn", x.id, "err", err)
		return
	}
	b.echoes[0] = e
	plan, err := session.MakeFold(b.st, session.Kernel{State: b.st.Kernel, Rhythm: fold.OpenRhythm(b.st.Head.Rhythm)},
		session.FoldCall{Now: c.now().UnixMilli(), Rows: x.traffic.Rollout != session.Off && b.st.Red == ""})
	if err == nil {
		plan.Commit.Echoes = append(plan.Commit.Echoes, session.Echo{Rounds: mustJSON(e)})
		err = c.ledger.Commit(x.ctx, &plan.Commit)
	}
	if err != nil {
		c.log.Error("private rounds were not kept", "turn", x.id, "err", err)
		return
	}
	b.st = plan.Settle()
	if b.st.Head.ListTurn == x.id {
		x.next = b.st
	}
}
