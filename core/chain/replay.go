package chain

import (
	"context"
	"errors"
	"fmt"

	"holdfast/core/chat"
	"holdfast/core/content"
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

// replayOutbound applies the recorded view to the rebuilt inbound body with
// the splice that sent it.
func replayOutbound(ctx context.Context, l session.Ledger, rec *session.TurnRecord, raw []byte) ([]byte, error) {
	if rec.View == nil {
		if rec.OutHash != rec.InHash {
			return nil, fmt.Errorf("%w: outbound of turn %d has no view", ErrReplay, rec.ID)
		}
		return raw, nil
	}
	codec := codecs()[wire.Family(rec.WireOut)]
	if codec == nil {
		return nil, fmt.Errorf("%w: wire %q", session.ErrUnknown, rec.WireOut)
	}
	body, err := wire.Cut(raw, codec.List())
	if err != nil {
		return nil, err
	}
	view, err := viewOf(ctx, l, rec.View)
	if err != nil {
		return nil, err
	}
	out := wire.Splice(body, view)
	if content.Of(out) != rec.OutHash {
		return nil, fmt.Errorf("%w: outbound of turn %d", ErrReplay, rec.ID)
	}
	return out, nil
}

func viewOf(ctx context.Context, l session.Ledger, runs []session.ViewRun) (view []wire.Item, err error) {
	for _, r := range runs {
		if r.N != 0 {
			raw, err := l.Blob(ctx, r.Blob)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", r.N, err)
			}
			view = append(view, wire.Item{Inbound: -1, Raw: raw})
			continue
		}
		for j := r.From; j < r.To; j++ {
			view = append(view, wire.Item{Inbound: j})
		}
	}
	return view, nil
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
