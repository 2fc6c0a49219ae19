package chain

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"holdfast/core/chat"
	"holdfast/core/config"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/session"
	"holdfast/core/upstream"
	"holdfast/core/usage"
	"holdfast/core/wire"
)

// Exchange is one request on its way through the stages. Fields are grouped by
// the stage that sets them and only read after it. One goroutine owns it until
// finish hands it to the afterwork.
type Exchange struct {
	// open
	r       *http.Request
	ctx     context.Context // for state: a client that leaves must not look like a broken ledger
	start   time.Time
	id      int64
	cfg     *config.Config
	tools   *tools
	target  upstream.Target
	codec   wire.Codec        // nil when no codec holds this family
	arrived []byte            // the body as it came, nil when it is streamed through
	raw     []byte            // the body decoded
	rawID   func() content.ID // of raw
	coding  string            // content encoding it came in
	held    bool
	traffic session.Traffic

	// identify
	body     *wire.Body
	frame    wire.Frame
	skeleton []byte
	fields   []session.FieldRef
	blobs    []session.Blob // of the large fields
	raws     []content.ID
	keys     []content.ID
	messages []*chat.Message
	window   usage.Tokens
	key      session.World
	world    *world // locked by walk
	attempt  int

	// align
	branch *branch // nil until the commit of a new one
	prior  session.State
	create bool
	al     session.Alignment
	coming map[int]session.Returned
	flight *flight
	rows   bool
	home   session.Home
	path   session.Path
	gate   session.Decision
	judged int64 // when the breaker was asked, unix ms

	// rewrite
	plan   *session.Plan
	limits fold.Limits
	nudge  string
	// bodies are the texts of blocks made by this turn, not in the ledger yet.
	bodies map[content.ID]fold.Body
	// answered is the element that turned out to carry private rounds, 0 for
	// none.
	answered int64

	// apply
	committed bool
	next      *session.State
	before    lastTurn // the branch's previous turn, for the change report

	// floored: a failure of ours left the client's own bytes, of an armed or
	// unknown session.
	floored bool

	// encode
	view []session.ViewItem
	out  []byte
	// offers says that out offers our tools, so that the reply may call them.
	offers bool
	// unthink leaves the reasoning of private rounds out: it was refused.
	unthink bool
	// outgoing is what was changed of the client's body, for the report, and
	// outgoingBytes the body it makes.
	outgoing      *wire.Outgoing
	outgoingBytes []byte
	sent          *sentForm

	// send
	done  session.TurnDone
	tap   *upstream.Tap
	reply *lockedReply
	// abort cuts the client's connection, as the upstream cut ours.
	abort bool
	// overlong: the upstream refused the request for its length.
	overlong bool
	loop     *loop // nil for a reply that can hold no calls of ours
	rounds   []wire.ReplyInfo
	folded   []int64 // blocks made by calls in this reply
	degrades []session.DegradeView

	ms session.StageTimes
}

// lockedReply lets the relay ask for the state of a reply that a decoder
// goroutine is still feeding.
type lockedReply struct {
	mu    sync.Mutex
	reply wire.Reply
	// ends runs once the terminal event of a stream has passed: the client's
	// next request may come before the stream's end. nil from then on.
	ends func()
}

func (l *lockedReply) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.reply.Write(p)
	if l.ends != nil && l.reply.Info().Terminal {
		l.ends()
		l.ends = nil
	}
	return n, err
}

func (l *lockedReply) info() wire.ReplyInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reply.Info()
}

// open routes the request and reads the body of a model call. Its errors are
// the only refusals of the proxy.
func (c *Chain) open(r *http.Request) (*Exchange, error) {
	if upstream.WebSocket(r.Header) {
		return nil, &upstream.Refusal{Status: http.StatusUpgradeRequired, Code: "no_websocket",
			Title: "WebSocket is not supported yet.", Hint: "Use HTTP: clients that offer both fall back by themselves."}
	}
	x := &Exchange{r: r, ctx: context.WithoutCancel(r.Context()), start: time.Now(), cfg: c.config(), tools: &c.tools, path: session.PathVerbatim}
	var err error
	if x.target, err = upstream.Resolve(x.cfg, r.Method, r.URL.EscapedPath(), r.URL.RawQuery); err != nil {
		return nil, err
	}
	x.target.URL.ForceQuery = r.URL.ForceQuery // a lone "?" is the client's
	c.metrics.seen.Add(1)
	x.codec = c.codecs[x.target.Family]
	c.follow(x.cfg.Bypass)
	x.traffic = session.Traffic{Bypass: x.cfg.Bypass, ModelCall: x.codec != nil, Rollout: session.Rollout(x.cfg.Rollout.Mode)}
	if x.codec != nil {
		if err := c.read(x); err != nil {
			return nil, err
		}
	}
	x.home, x.path, _ = session.HomeOf(x.traffic)
	x.out, x.rawID = x.raw, hashOf(x.raw)
	c.metrics.opened(x)
	return x, nil
}

// follow notes the end of a bypass.
func (c *Chain) follow(bypass bool) {
	if bypass {
		c.bypass.on.Store(true)
	} else if c.bypass.on.CompareAndSwap(true, false) {
		c.bypass.ended.Add(1)
	}
}

// read takes the body in and decides whether a codec will hold it.
func (c *Chain) read(x *Exchange) error {
	var err error
	if x.arrived, err = upstream.ReadBody(x.r); err != nil {
		return err
	}
	x.id = c.ledger.NextTurn()
	x.coding = x.r.Header.Get("Content-Encoding")
	x.raw, err = upstream.Decode(x.arrived, x.coding)
	if errors.Is(err, upstream.ErrEncoding) {
		x.raw, x.traffic.Unheld = x.arrived, true
		c.degrade(x, session.Decision{Cause: session.CauseEncoding, Scope: "turn"}, x.coding)
		return nil
	}
	if err != nil {
		return err
	}
	hop := x.r.Header.Get(upstream.HopHeader) != ""
	x.traffic.Bypass = x.traffic.Bypass || hop
	x.held = !x.traffic.Bypass
	return nil
}

// hashedBeside is the length from which a body is hashed on another core while
// the walk goes on: 64 KB take some 50 µs, a goroutine a few.
const hashedBeside = 64 << 10

// hashOf is the hash of b, computed once.
func hashOf(b []byte) func() content.ID {
	id := sync.OnceValue(func() content.ID { return content.Of(b) })
	if len(b) >= hashedBeside {
		go id()
	}
	return id
}
