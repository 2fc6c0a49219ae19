package local

import (
	"context"
	"io"
	"net/http"
	"strings"

	"holdfast/core/kv"
	"holdfast/core/upstream"
	"holdfast/core/usage"
)

// Warm computes the prompt of a request that is expected, in the slot that holds
// most of it, while that slot is idle. Any request ends it: what was computed by
// then stays in the slot. Until the prompt is rendered nothing is known of the
// conversation's present one: the last is not what will be sent.
func (e *Engine) Warm(call upstream.Call, path string, body []byte) {
	if e.o.Tier == nil {
		return
	}
	call.Report = func(usage.Receipt) {}
	next := &sent{conversation: call.Conversation, at: e.now()}
	e.prompts.put(next)
	w := wireOf(path)
	e.work.Go(func() {
		if err := e.warm(w, body, call, next); err != nil && e.ctx.Err() == nil {
			e.log.Debug("a prompt was not computed ahead", "err", err)
		}
	})
}

// wireOf is the wire of a model call's path.
func wireOf(path string) clientWire {
	if strings.HasSuffix(strings.TrimRight(path, "/"), "/messages") {
		return messagesWire{}
	}
	return chatWire{}
}

func (e *Engine) warm(w clientWire, body []byte, call upstream.Call, next *sent) error {
	req, err := w.request(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	l, err := e.contact(ctx)
	if err != nil {
		return err
	}
	ids, err := e.render(ctx, l, &req, call, next)
	if err != nil {
		return err
	}
	t := &ticket{e: e, life: l, req: req, ids: ids, sent: next, yield: cancel, call: call, begun: e.now()}
	if t.slot = t.own(); t.slot == nil {
		return nil // nobody has been there; the disk is the request's affair
	}
	resp, err := l.client.Post(ctx, "/v1/chat/completions", nil, fields(ahead(req.body), t.slot.id, true, false))
	if err != nil {
		t.abandon()
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.abandon()
		return err
	}
	t.hear(reply)
	t.finish()
	return nil
}

// render turns a request that is not sent now into its prompt, which next stands
// for.
func (e *Engine) render(ctx context.Context, l *life, req *request, call upstream.Call, next *sent) ([]kv.Token, error) {
	if l.dated {
		req.body = pin(req.body, call)
	}
	ids, err := promptOf(ctx, l.client, req.body)
	if err == nil {
		e.prompts.rendered(next, ids, l)
	}
	return ids, err
}

// own takes the idle slot with the most of the prompt, where that is worth a
// word.
func (t *ticket) own() (best *slot) {
	s := t.life.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	most := kv.Tokens(eraseBelow - 1)
	for _, sl := range s.list {
		if n := common(sl.held, t.ids); !sl.busy && n > most {
			best, most = sl, n
		}
	}
	if best != nil {
		best.busy, best.yield = true, t.yield
	}
	return best
}

// ahead is a chat body that asks for no reply, only for its prompt to be
// computed.
func ahead(body []byte) []byte {
	end := strings.LastIndexByte(string(body), '}')
	out := append([]byte{}, body[:end]...)
	return append(append(out, `,"max_tokens":0,"stream":false`...), body[end:]...)
}
