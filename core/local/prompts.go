package local

import (
	"sync"
	"time"

	"holdfast/core/kv"
	"holdfast/core/upstream"
)

// Prompt tells how much of a conversation's last prompt is where. Each figure
// counts tokens from the prompt's beginning, so that they overlap: what a slot
// holds may be stored as well.
type Prompt struct {
	Total    kv.Tokens
	Resident kv.Tokens // in a slot
	Disk     kv.Tokens // in the store
	At       time.Time // when it was sent
}

// Bounds of the prompts that are remembered: their tokens all together, 16 MiB,
// and their number. The newest stays, whatever its length.
const (
	keptTokens  = 4 << 20
	keptPrompts = 1 << 10
)

// prompts remembers the last prompt of each conversation. Its lock is held for
// moments and over nothing else.
type prompts struct {
	mu     sync.Mutex
	last   map[string]*sent
	order  []*sent // as they were sent, oldest first
	tokens int
}

// sent is one prompt: ids is what is known of it, total what it is. The list
// behind ids is never changed.
type sent struct {
	conversation string
	ids          []kv.Token
	total        kv.Tokens
	at           time.Time
	// life knows the identity that the store keeps it under.
	life *life
}

func newPrompts() *prompts { return &prompts{last: map[string]*sent{}} }

// put makes a prompt the last of its conversation. One of nobody is not kept.
func (p *prompts) put(s *sent) {
	if s.conversation == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.place(s)
}

// place is put for a caller that holds the lock.
func (p *prompts) place(s *sent) {
	p.drop(p.last[s.conversation])
	p.last[s.conversation] = s
	p.order = append(p.order, s)
	p.tokens += len(s.ids)
	p.trim()
}

// putNew is put where nothing is known of the conversation.
func (p *prompts) putNew(s *sent) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[s.conversation] != nil {
		return false
	}
	p.place(s)
	return true
}

// forget drops a prompt that came to nothing.
func (p *prompts) forget(s *sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(s)
}

// drop forgets a prompt; the caller holds the lock.
func (p *prompts) drop(s *sent) {
	if s == nil {
		return
	}
	for i, o := range p.order {
		if o == s {
			p.order = append(p.order[:i:i], p.order[i+1:]...)
			p.tokens -= len(s.ids)
			delete(p.last, s.conversation)
			return
		}
	}
}

// trim keeps the bound; the caller holds the lock.
func (p *prompts) trim() {
	for len(p.order) > 1 && (p.tokens > keptTokens || len(p.order) > keptPrompts) {
		p.drop(p.order[0])
	}
}

// learn sets what has become known of a prompt: its tokens where ids is not nil,
// else its length. A prompt that is not the last any more is left alone, so that
// what comes late does no harm.
func (p *prompts) learn(s *sent, ids []kv.Token, total kv.Tokens) {
	if s == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last[s.conversation] != s {
		return
	}
	if ids != nil {
		p.tokens += len(ids) - len(s.ids)
		s.ids = ids
		p.trim()
	}
	if len(s.ids) > 0 {
		s.total = total
	}
}

// rendered is learn for a prompt that was put before the engine was met.
func (p *prompts) rendered(s *sent, ids []kv.Token, l *life) {
	p.mu.Lock()
	s.life = l
	p.mu.Unlock()
	p.learn(s, ids, kv.Tokens(len(ids)))
}

// of copies the last prompt of a conversation; ok is false where its length is
// not known.
func (p *prompts) of(conversation string) (s sent, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := p.last[conversation]; last != nil && last.total > 0 && last.life != nil {
		return *last, true
	}
	return sent{}, false
}

// Prompt tells of a conversation's last prompt, ok being false for one that this
// engine was not asked since the program's start. It asks the engine nothing and
// waits for no request: what slots hold is what is remembered of them.
func (e *Engine) Prompt(conversation string) (p Prompt, ok bool) {
	s, ok := e.prompts.of(conversation)
	if !ok {
		return Prompt{}, false
	}
	id, _, why := s.life.reuse()
	if why != "" && why != kv.MissStarting {
		return Prompt{}, false // the engine chooses its slots itself
	}
	p = Prompt{Total: s.total, At: s.at}
	if l := e.life.Load(); l != nil {
		for _, held := range l.slots.contents() {
			p.Resident = max(p.Resident, min(common(held, s.ids), p.Total))
		}
	}
	if why == "" {
		p.Disk = min(e.o.Tier.Restorable(id, s.ids), p.Total)
	}
	return p, true
}

// Recall has the last prompt of a conversation rendered again, behind the caller,
// where none was sent since the program's start: at is when it was. It makes no
// first contact and computes nothing, so that who only looks starts nothing.
func (e *Engine) Recall(call upstream.Call, at time.Time, path string, body []byte) {
	l := e.life.Load()
	s := &sent{conversation: call.Conversation, at: at}
	if l == nil || e.o.Tier == nil || !e.prompts.putNew(s) {
		return
	}
	e.work.Go(func() {
		req, err := wireOf(path).request(body)
		if err == nil {
			_, err = e.render(e.ctx, l, &req, call, s)
		}
		if err != nil {
			e.prompts.forget(s)
			e.log.Debug("an earlier prompt could not be rendered again", "err", err)
		}
	})
}

// arrive makes the ticket's prompt the last of its conversation. Nothing is known
// of it yet, and the one before is not what the ledger shows any more.
func (t *ticket) arrive() {
	t.sent = &sent{conversation: t.call.Conversation, at: t.e.now(), life: t.life}
	t.e.prompts.put(t.sent)
}

// goOn notes what is known of a prompt that only goes on: what the slot holds.
// The rest is reckoned by the bytes, rounded up, until the engine says how long
// it is.
func (t *ticket) goOn() {
	held := t.slot.held
	t.e.prompts.learn(t.sent, held, grown(kv.Tokens(len(held)), len(t.slot.body), len(t.req.body)))
}

// grown is how many tokens a body of so many bytes is, where one of before bytes
// is n: rounded up, and one more than before at least.
func grown(n kv.Tokens, before, bytes int) kv.Tokens {
	return max(n+1, (n*kv.Tokens(bytes)+kv.Tokens(before)-1)/kv.Tokens(before))
}

// long notes how long the engine found the ticket's prompt. Where none of its
// tokens are known it stays unknown: the slot was the engine's own choice.
func (t *ticket) long(total kv.Tokens) {
	if total > 0 {
		t.e.prompts.learn(t.sent, nil, total)
	}
}
