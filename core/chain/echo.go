package chain

import (
	"encoding/json"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/session"
	"holdfast/core/wire"
)

// echo is what the model really produced in a turn in which it called our
// tools. The client knows the rounds as one merged element; what it sends back
// of it is rendered as they were until that element is folded.
type echo struct {
	// Wire is the family the rounds are spelled in, Key that of the merged
	// element, reasoning apart.
	Wire   wire.Family `json:"wire"`
	Key    string      `json:"key"`
	Rounds []round     `json:"rounds"`
	// turn is the one the rounds are of, in memory only.
	turn int64
}

// round is the stored form of wire.Private. The element is kept as bytes:
// marshalled as JSON it would be spelled anew.
type round struct {
	Assistant []byte        `json:"assistant"`
	Results   []wire.Result `json:"results,omitempty"`
}

func roundsOf(ps []wire.Private) []round {
	out := make([]round, len(ps))
	for i := range ps {
		out[i] = round{ps[i].Assistant, ps[i].Results}
	}
	return out
}

func (e *echo) private() []wire.Private {
	out := make([]wire.Private, len(e.Rounds))
	for i := range e.Rounds {
		out[i] = wire.Private{Assistant: e.Rounds[i].Assistant, Results: e.Rounds[i].Results}
	}
	return out
}

// openEchoes reads what the ledger keeps of a branch; what cannot be read is
// left out, and the model is shown what the client sends.
func (c *Chain) openEchoes(stored map[int64][]byte) map[int64]*echo {
	out := make(map[int64]*echo, len(stored))
	for n, text := range stored {
		e := &echo{}
		if err := json.Unmarshal(text, e); err != nil {
			c.log.Error("private rounds cannot be read", "element", n, "err", err)
			continue
		}
		out[n] = e
	}
	return out
}

// attach finds the element that carries the private rounds of the turn before:
// the first assistant element that is new. One that is not what the client was
// given means that the client changed it, and the rounds are let go.
func (c *Chain) attach(x *Exchange) {
	x.answered = 0
	if x.branch == nil || x.branch.echoes[0] == nil {
		return
	}
	e := x.branch.echoes[0]
	for j := range x.keys {
		if x.al.Kept[j] >= 0 || x.messages[j] == nil || x.messages[j].Role != chat.Assistant {
			continue
		}
		if e.Key != x.keys[j].String() || e.Wire != x.codec.Family() {
			c.degrade(x, session.Decision{Cause: session.CauseEcho, Scope: "turn"}, "the reply came back changed")
			x.answered = -1
			return
		}
		x.answered = x.plan.Next.List[j].N
		x.plan.Commit.Echoes = append(x.plan.Commit.Echoes, session.Echo{N: x.answered, Rounds: mustJSON(e)})
		return
	}
}

// settleEcho moves the pending rounds to their element once that is durable.
func (x *Exchange) settleEcho() {
	if x.answered == 0 {
		return
	}
	e := x.branch.echoes[0]
	delete(x.branch.echoes, 0)
	if x.answered > 0 {
		x.branch.echoes[x.answered] = e
	}
}

// echoOf are the private rounds behind an element, in this turn's wire.
func (x *Exchange) echoOf(n int64) []wire.Private {
	if x.branch == nil {
		return nil
	}
	e := x.branch.echoes[n]
	if n == x.answered && n > 0 && e == nil {
		e = x.branch.echoes[0]
	}
	if e == nil || e.Wire != x.codec.Family() || n <= 0 {
		return nil
	}
	if x.unthink {
		return withoutThought(x.codec, e.private())
	}
	return e.private()
}

// withoutThought are rounds without their reasoning; one that was nothing else
// stays as it was.
func withoutThought(codec wire.Codec, rounds []wire.Private) []wire.Private {
	out := make([]wire.Private, len(rounds))
	for i, r := range rounds {
		out[i] = r
		if rest, ok := codec.Unthink(r.Assistant); ok {
			out[i].Assistant = rest
		}
	}
	return out
}

// thinks reports whether there is reasoning in rounds that a provider could
// refuse.
func thinks(codec wire.Codec, rounds []wire.Private) bool {
	for _, r := range rounds {
		if rest, ok := codec.Unthink(r.Assistant); ok && len(rest) != len(r.Assistant) {
			return true
		}
	}
	return false
}

// thinksPrivately reports whether the request carries reasoning that the client
// knows nothing of.
func (x *Exchange) thinksPrivately() bool {
	for _, v := range x.view {
		if thinks(x.codec, x.echoOf(v.Elem)) {
			return true
		}
	}
	return false
}

// keyOf is the key of an element, zero when it cannot be read.
func keyOf(codec wire.Codec, element []byte) content.ID {
	m, err := codec.Element(element)
	if err != nil {
		return content.ID{}
	}
	return m.Key
}
