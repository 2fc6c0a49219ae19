package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// Part is one side of a turn.
type Part string

// The parts of a turn that replay gives back.
const (
	Inbound  Part = "inbound"
	Outbound Part = "outbound"
	Response Part = "response"
)

// ErrReplay: the rebuilt bytes do not have the recorded hash.
var ErrReplay = errors.New("chain: rebuilt bytes differ from what was recorded")

// Replay rebuilds the exact bytes of a model call from the ledger and checks
// them by hash: decoded bodies, and the response as it was relayed (still in
// its content encoding). What is not kept is session.ErrNotKept.
func Replay(ctx context.Context, l session.Ledger, turn int64, part Part) ([]byte, error) {
	rec, err := l.Turn(ctx, turn)
	if err != nil {
		return nil, err
	}
	switch part {
	case Response:
		return replayResponse(ctx, l, rec)
	case Inbound, Outbound:
	default:
		return nil, fmt.Errorf("%w: part %q; there are inbound, outbound and response", session.ErrUnknown, part)
	}
	if !rec.Kept {
		return nil, fmt.Errorf("%w: this turn was recorded by size and hash only (%s)", session.ErrNotKept, rec.Home)
	}
	raw, err := rebuild(ctx, l, rec)
	if err != nil {
		return nil, err
	}
	if content.Of(raw) != rec.InHash {
		return nil, fmt.Errorf("%w: inbound of turn %d", ErrReplay, turn)
	}
	if part == Inbound {
		return raw, nil
	}
	return replayOutbound(ctx, l, rec, raw)
}

func rebuild(ctx context.Context, l session.Ledger, rec *session.TurnRecord) ([]byte, error) {
	var sk wire.Skeleton
	if err := sk.UnmarshalBinary(rec.Skeleton); err != nil {
		return nil, err
	}
	elems := make([][]byte, len(rec.Items))
	for i, it := range rec.Items {
		raw, err := l.Blob(ctx, it.Raw)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", it.N, err)
		}
		elems[i] = raw
	}
	return sk.Build(func(id content.ID) ([]byte, error) { return l.Blob(ctx, id) }, elems)
}

// replayOutbound renders the recorded view and additions into the rebuilt
// inbound body, as they were rendered when it was sent.
func replayOutbound(ctx context.Context, l session.Ledger, rec *session.TurnRecord, raw []byte) ([]byte, error) {
	if rec.View == nil {
		if rec.OutHash != rec.InHash {
			return nil, fmt.Errorf("%w: outbound of turn %d has no view", ErrReplay, rec.ID)
		}
		return raw, nil
	}
	sent, body, err := renderAgain(ctx, l, rec, raw)
	if err != nil {
		return nil, err
	}
	out := sent.Bytes(body)
	if content.Of(out) != rec.OutHash {
		return out, fmt.Errorf("%w: outbound of turn %d", ErrReplay, rec.ID)
	}
	return out, nil
}

func renderAgain(ctx context.Context, l session.Ledger, rec *session.TurnRecord, raw []byte) (*wire.Outgoing, *wire.Body, error) {
	codec := codecs()[wire.Family(rec.WireOut)]
	if codec == nil {
		return nil, nil, fmt.Errorf("%w: wire %q", session.ErrUnknown, rec.WireOut)
	}
	body, err := wire.Cut(raw, codec.List())
	if err != nil {
		return nil, nil, err
	}
	r := recorded{ctx: ctx, l: l, rec: rec}
	for i := range rec.View {
		if err := r.take(&rec.View[i]); err != nil {
			return nil, nil, err
		}
	}
	out, err := codec.Render(body, r.slots, r.add)
	return &out, body, err
}

// recordOf tells what leaves as runs: the view, then everything we add. The
// blobs are those the ledger may not have yet.
func recordOf(view []session.ViewItem, slots []wire.Slot, k *fold.State, add wire.Additions) (runs []session.ViewRun, blobs []session.Blob) {
	for i, v := range view {
		last := len(runs) - 1
		switch {
		case v.Block != 0:
			runs = append(runs, session.ViewRun{Block: v.Block, Blob: k.Block(v.Block).Body})
		case v.Inbound < 0:
			runs = append(runs, session.ViewRun{N: v.Elem, Blob: content.Of(slots[i].Raw), Overlays: v.Overlays})
		case len(v.Overlays) > 0:
			runs = append(runs, session.ViewRun{From: v.Inbound, To: v.Inbound + 1, Overlays: v.Overlays})
		case last >= 0 && plainRun(&runs[last]) && runs[last].To == v.Inbound:
			runs[last].To++
		default:
			runs = append(runs, session.ViewRun{From: v.Inbound, To: v.Inbound + 1})
		}
	}
	added := func(name string, text []byte) {
		if len(text) == 0 {
			return
		}
		id := content.Of(text)
		runs = append(runs, session.ViewRun{Add: name, Blob: id})
		blobs = append(blobs, session.Blob{ID: id, Raw: text})
	}
	added(session.AddParagraph, []byte(add.Paragraph))
	if len(add.Tools) > 0 {
		added(session.AddTools, toolList(add.Tools))
	}
	added(session.AddNudge, []byte(add.Nudge))
	for i, v := range view {
		if slots[i].Echo != nil { // kept in a table of their own
			runs = append(runs, session.ViewRun{Add: session.AddEcho, From: i, N: v.Elem})
		}
	}
	if add.Strict {
		runs = append(runs, session.ViewRun{Add: session.AddStrict})
	}
	return runs, blobs
}

// toolList keeps tools byte for byte, one a line: a value has no line breaks.
func toolList(tools []json.RawMessage) []byte {
	var out []byte
	for i, t := range tools {
		if i > 0 {
			out = append(out, '\n')
		}
		out = append(out, t...)
	}
	return out
}

func plainRun(r *session.ViewRun) bool {
	return r.N == 0 && r.Block == 0 && r.Add == "" && len(r.Overlays) == 0
}

// mustJSON marshals values that always do.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("chain: internal error: a value does not marshal: " + err.Error())
	}
	return b
}

// recorded reads runs back into what was rendered.
type recorded struct {
	ctx context.Context
	l   session.Ledger
	rec *session.TurnRecord
	// kernel is read when the first carrier asks for it.
	kernel *fold.State
	slots  []wire.Slot
	add    wire.Additions
}

func (r *recorded) take(run *session.ViewRun) error {
	switch {
	case run.Add != "":
		return r.addition(run)
	case run.Block != 0:
		text, err := r.carrier(run)
		r.slots = append(r.slots, wire.Slot{Item: wire.Item{Inbound: -1}, Carrier: text})
		return err
	case run.N != 0:
		raw, err := r.l.Blob(r.ctx, run.Blob)
		if err != nil {
			return fmt.Errorf("element %d: %w", run.N, err)
		}
		return r.element(wire.Item{Inbound: -1, Raw: raw}, run.N, run.Overlays)
	}
	for j := run.From; j < run.To; j++ {
		if err := r.element(wire.Item{Inbound: j}, r.rec.Items[j].N, run.Overlays); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorded) element(it wire.Item, n int64, shortened []fold.Shortened) error {
	s := wire.Slot{Item: it}
	if len(shortened) > 0 {
		elems, err := r.l.Elements(r.ctx, r.rec.Ledger, []int64{n})
		if err != nil {
			return err
		}
		s.Overlays = overlays(shortened, elems[0].Ref)
	}
	r.slots = append(r.slots, s)
	return nil
}

func (r *recorded) carrier(run *session.ViewRun) (string, error) {
	if r.kernel == nil {
		st, err := r.l.Load(r.ctx, r.rec.Ledger)
		if err != nil {
			return "", err
		}
		r.kernel = &st.Kernel
	}
	b := r.kernel.Block(run.Block)
	if b == nil {
		return "", fmt.Errorf("%w: block b%d", session.ErrUnknown, run.Block)
	}
	body, err := bodyOf(r.ctx, r.l, run.Blob)
	if err != nil {
		return "", fmt.Errorf("block b%d: %w", run.Block, err)
	}
	return fold.CarrierText(b, body), nil
}

func (r *recorded) addition(run *session.ViewRun) error {
	switch run.Add {
	case session.AddStrict:
		r.add.Strict = true
		return nil
	case session.AddEcho:
		return r.echo(run)
	}
	text, err := r.l.Blob(r.ctx, run.Blob)
	if err != nil {
		return fmt.Errorf("our %s: %w", run.Add, err)
	}
	switch run.Add {
	case session.AddParagraph:
		r.add.Paragraph = string(text)
	case session.AddTools:
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			r.add.Tools = append(r.add.Tools, line)
		}
	case session.AddNudge:
		r.add.Nudge = string(text)
	}
	return nil
}

func (r *recorded) echo(run *session.ViewRun) error {
	stored, err := r.l.Echoes(r.ctx, r.rec.Ledger)
	if err != nil {
		return err
	}
	var e echo
	if err := json.Unmarshal(stored[run.N], &e); err != nil || run.From >= len(r.slots) {
		return fmt.Errorf("%w: the private rounds of element %d", session.ErrNotKept, run.N)
	}
	r.slots[run.From].Echo = e.private()
	return nil
}

func replayResponse(ctx context.Context, l session.Ledger, rec *session.TurnRecord) ([]byte, error) {
	if rec.Done == nil {
		return nil, fmt.Errorf("%w: the reply of this turn is not complete", session.ErrNotKept)
	}
	raw, err := l.Response(ctx, rec.ID)
	if err != nil {
		return nil, err
	}
	if content.Of(raw) != rec.Done.ResponseHash {
		return nil, fmt.Errorf("%w: response of turn %d", ErrReplay, rec.ID)
	}
	return raw, nil
}

// Report is what a verification found.
type Report struct {
	Ledger   string   `json:"ledger"`
	Elements int      `json:"elements"`
	Rows     int      `json:"rows"`
	Turns    int      `json:"turns"`
	NotKept  int      `json:"not_kept"`
	Red      string   `json:"red"`
	Problems []string `json:"problems"`
}

// OK reports a ledger without problems. A red one is not a problem by itself:
// it is served by the full path and re-stamped.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Verify re-renders a ledger: its rows against its list, every stored element
// against its key and its canonical ids, and every given turn byte for byte.
func Verify(ctx context.Context, l session.Ledger, ledger string, turns []int64) (*Report, error) {
	st, err := l.Load(ctx, ledger)
	if err != nil {
		return nil, err
	}
	r := &Report{Ledger: ledger, Elements: len(st.List), Rows: len(st.Rows), Turns: len(turns), Red: st.Red, Problems: []string{}}
	if st.Red == "" && st.Head.Mode != session.Unsigned {
		if _, err := session.SnapshotView(st.Rows, st.List); err != nil {
			r.problem("view: %v", err)
		}
	}
	if err := r.elements(ctx, l, st); err != nil {
		return nil, err
	}
	for _, id := range turns {
		for _, part := range [...]Part{Inbound, Outbound, Response} {
			_, err := Replay(ctx, l, id, part)
			switch {
			case errors.Is(err, session.ErrNotKept):
				r.NotKept++
			case err != nil:
				r.problem("turn %d %s: %v", id, part, err)
			}
		}
	}
	return r, nil
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

func (r *Report) elements(ctx context.Context, l session.Ledger, st *session.State) error {
	elems, err := l.Elements(ctx, st.Head.Ledger, numbers(st.List))
	if err != nil {
		return err
	}
	codec := codecs()[wire.Family(st.Head.Wire)]
	if codec == nil {
		r.problem("wire %q is not known", st.Head.Wire)
		return nil
	}
	for i := range elems {
		raw, err := l.Blob(ctx, elems[i].Blob)
		if err != nil {
			r.problem("element %d: %v", elems[i].N, err)
			continue
		}
		m, err := codec.Element(raw)
		switch {
		case err != nil:
			r.problem("element %d: %v", elems[i].N, err)
		case m.Key != st.List[i].Key:
			r.problem("element %d does not have its key", elems[i].N)
		case len(m.Stripped) != len(raw):
			r.problem("element %d is stored with a cache marker", elems[i].N)
		case !sameCores(m.Parts, elems[i].Cores):
			r.problem("element %d does not have its canonical ids", elems[i].N)
		}
	}
	return nil
}

// sameCores compares all cores but reasoning, which equality leaves out.
func sameCores(parts []chat.Part, cores []session.CoreRef) bool {
	var a, b []chat.CanonID
	for i := range parts {
		if parts[i].Kind != chat.Reasoning {
			a = append(a, parts[i].Canon)
		}
	}
	for i := range cores {
		if cores[i].Kind != chat.Reasoning {
			b = append(b, cores[i].Canon)
		}
	}
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
