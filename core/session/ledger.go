package session

import (
	"context"
	"errors"
	"time"

	"holdfast/core/chat"
	"holdfast/core/content"
	"holdfast/core/fold"
	"holdfast/core/usage"
)

// Sentinels the chain branches on.
var (
	// ErrStale: another commit moved the session since the plan was made; the
	// loser loads again and recomputes once.
	ErrStale = errors.New("session: the ledger moved on since this was planned")
	// ErrUnknown: no such ledger, turn, element or blob.
	ErrUnknown = errors.New("session: not in the ledger")
	// ErrReadBack: what was committed does not read back as written (gate R3).
	ErrReadBack = errors.New("session: the commit does not read back as written")
	// ErrNotKept: it was recorded by size and hash only, or purged to keep the
	// budget. The error's text names which.
	ErrNotKept = errors.New("session: not kept")
	// ErrFull: the ledger budget is used up and nothing may be purged; the turn
	// is served and recorded without bodies.
	ErrFull = errors.New("session: the ledger budget is used up")
)

// ElemState is where an element stands.
type ElemState string

// The states of an element.
const (
	Live     ElemState = "live"
	Folded   ElemState = "folded"
	Hidden   ElemState = "hidden"
	Overlaid ElemState = "overlaid"
	Removed  ElemState = "removed" // the client dropped it; it stays in the snapshot view
	Rewound  ElemState = "rewound" // the client went back before it
	Archived ElemState = "archived"
)

// Head is the session row: one branch of a world, whole. Storage writes it as
// given; every counter in it is computed by the planner, Totals apart, to which
// Finish alone adds.
type Head struct {
	Ledger string
	World
	Branch   int
	Parent   string // ledger this branch left or was forked from, "" for none
	ForkElem int64  // last element shared with Parent, 0 for none
	Title    string // first user text, at most 80 runes
	Model    string
	Wire     string
	Window   usage.Tokens
	// Tools says whether this branch's requests offer tools; a branch that does
	// is never taken by a request that does not, or the other way round.
	Tools bool
	Mode  Mode
	// Bucket is the sticky rollout place; Member whether it was inside the
	// percentage at first sight.
	Bucket int
	Member bool
	// Epoch counts re-stamps. Version counts commits that changed the list: the
	// compare-and-set value. Structure is the sealed kernel state.
	Epoch, Version   int64
	Structure        []byte
	StructureVersion int64
	Sum              content.ID // checksum of Structure
	Rhythm           []byte     // never sealed; JSON
	Totals           Totals
	HeadSeq          int64 // newest checkpoint, 0 for none
	NextRow          int64
	NextElem         int64
	NextRef          int64
	NextBlock        int64
	// ListTurn is the turn whose element list is the last inbound list.
	ListTurn int64
	// ListLen and ListSum are the length and chained key sum of that list; the
	// unsigned search asks for them.
	ListLen int
	ListSum content.ID
	// Rewound counts elements in state rewound, so that sessions without any
	// skip the search for returning ones.
	Rewound  int
	LastGate string
	Breaker  Breaker
	// NeedsRestamp says why the rows do not follow the list at present; ""
	// when they do. Such a session is on the full path until re-stamped.
	NeedsRestamp string
	CreatedAt    int64 // unix ms
	LastSeen     int64 // unix ms
}

// Totals are sums over the finished turns of a session.
type Totals struct {
	Turns      int64        `json:"turns"`
	Input      usage.Tokens `json:"input"`
	Cached     usage.Tokens `json:"cached"`
	CacheWrite usage.Tokens `json:"cache_write"`
	Output     usage.Tokens `json:"output"`
	Estimated  int64        `json:"estimated"` // turns without an exact report
	BytesIn    int64        `json:"bytes_in"`
	BytesOut   int64        `json:"bytes_out"`
	CostMicros int64        `json:"cost_micros"` // millionths of the price table's currency
	Unpriced   int64        `json:"unpriced"`    // turns whose model has no price
}

// Elem is one element of an inbound list.
type Elem struct {
	N   int64
	Key content.ID
	// Raw is the hash of the client's bytes as it last spelled them.
	Raw content.ID
}

// RowIndex is what memory keeps of one live row.
type RowIndex struct {
	Row, Elem, Pos int64
	Sub            int32
	// Removed says the element's state is removed.
	Removed bool
	// Tokens is the element's count, on its first row only.
	Tokens usage.Tokens
	// Kind and Call (the call id of a call or result) answer whether a view is
	// closed without reading a body.
	Kind     chat.Kind
	Call     string
	RowSum   Sum
	StateSum Sum
	// Carrier is the block this row is the carrier of, 0 for a row of an element.
	Carrier int64
	// Block is the block that covers the row, 0 for none. A covered or hidden row
	// is inactive and stands by in its place.
	Block  int64
	Hidden bool
	// Overlay is the row's overlay as stored, "" for none.
	Overlay string
}

// Live reports whether the row is in the view.
func (r *RowIndex) Live() bool { return r.Block == 0 && !r.Hidden }

// State is one branch as the planner needs it. It is a cache of the ledger,
// valid for one Head.Version; it holds no bodies.
type State struct {
	Head Head
	// Kernel is Structure opened.
	Kernel fold.State
	// List is the last inbound list in order.
	List []Elem
	// Rows are the live rows of this epoch and those that stand by, in (pos, sub)
	// order.
	Rows []RowIndex
	// Stands has the state of every element of the list that is not live, and of
	// those removed from it.
	Stands map[int64]ElemState
	// Meta is what the kernel knows of the elements, by number, for branches whose
	// requests offer tools. Facts about an element never change, so plans share
	// one map; see Undescribed.
	Meta map[int64]fold.Element
	// Repeats counts how often each bare canonical id has been stored in this
	// ledger, over all elements of any state.
	Repeats map[chat.CanonID]int32
	// Route is what l1_world was last given; "" after a load, so that the first
	// turn writes it again.
	Route Route
	// Red says why the rows cannot be used (mode off, no rows, unreadable,
	// check failed, not current); "" is green.
	Red string
}

// Element is one row of table element.
type Element struct {
	N      int64
	Key    content.ID
	Ref    int64 // number of the m-ref; 0 for elements that never get one
	Tokens usage.Tokens
	// Exact says the count is the upstream's own.
	Exact bool
	Role  chat.Role
	Kind  chat.Kind // kind of the first part
	Blob  content.ID
	State ElemState
	// Prev is the element before it in the client's list when it was last
	// there, 0 for the first: the witness of a reactivation.
	Prev      int64
	FirstTurn int64
	// Cores are the bare canonical ids in order with the repeat each got when it
	// was first stored (1 for the first).
	Cores []CoreRef
}

// CoreRef is one core of a stored element.
type CoreRef struct {
	Kind   chat.Kind
	Canon  chat.CanonID
	Repeat int32
}

// Blob is bytes to be kept by hash; Media are base64 payloads inside Raw that
// go to message_media.
type Blob struct {
	ID    content.ID
	Raw   []byte
	Media []chat.Span
}

// StateChange moves one element to another state. Prev is written when not
// negative.
type StateChange struct {
	N     int64
	State ElemState
	Prev  int64
}

// Reblob changes the stored bytes of one element.
type Reblob struct {
	N    int64
	Blob content.ID
}

// Checkpoint is the sealed state after a commit.
type Checkpoint struct {
	Seq, Epoch, PosHi, RowHi int64
	Reason                   string
	Cause                    string // cause_id, "" for none
	Meta                     Meta
	FrameSig                 []byte
	CreatedAt                int64
}

// Meta is ckpt.meta_json: kernel state, coverage, aggregate and witnesses.
type Meta struct {
	V int `json:"v"`
	// Version is the session version this checkpoint seals: rows are current
	// only while the session still has it.
	Version int64      `json:"version"`
	Kernel  KernelSeal `json:"kernel"`
	// Coverage maps a block to the half-open position intervals it covers.
	Coverage []Cover      `json:"coverage,omitempty"`
	S4       Aggregate    `json:"s4"`
	Events   []fold.Event `json:"events,omitempty"`
}

// KernelSeal names the kernel state a checkpoint was made with.
type KernelSeal struct {
	Structure int64  `json:"structure"`
	Sum       string `json:"sum"`
}

// Cover is one block's coverage.
type Cover struct {
	Block     string     `json:"block"`
	Anchor    int64      `json:"anchor"`
	Intervals [][2]int64 `json:"intervals"`
	Children  []string   `json:"children,omitempty"`
}

// Aggregate is the S4 sum over the live rows in (pos, sub) order.
type Aggregate struct {
	Sum   string `json:"sum"`
	Count int    `json:"count"`
}

// ListItem is one element of a turn's inbound list as it was sent.
type ListItem struct {
	N   int64
	Raw content.ID
}

// TurnList is a turn's inbound list told as a difference: the first Common
// items of turn Prev, then Tail. Prev is 0 for a list that stands alone.
type TurnList struct {
	Prev   int64
	Common int
	Tail   []ListItem
	// Whole is the complete list; storage writes it instead of the difference
	// when the turn becomes a key frame (every KeyFrameEvery turns).
	Whole []ListItem
}

// KeyFrameEvery bounds how many turns must be read to resolve a list.
const KeyFrameEvery = 64

// FieldRef names a top-level field kept by hash.
type FieldRef struct {
	Name string     `json:"name"`
	ID   content.ID `json:"-"`
	Hash string     `json:"hash"`
}

// ViewRun is a run of an outbound body: inbound elements [From, To), or one of
// the others. Runs come in the order of the list, additions behind them.
type ViewRun struct {
	From, To int
	// N is a stored element put back with the bytes of Blob, 0 for none.
	N int64
	// Block is the block whose carrier stands here, its body in Blob; 0 for none.
	Block int64
	Blob  content.ID
	// Overlays shorten the one element of this run.
	Overlays []fold.Shortened
	// Add names an addition of ours to the body (AddParagraph and the others),
	// with its bytes in Blob; "" for none.
	Add string
}

// The additions to a body that are no part of the view.
const (
	AddParagraph = "paragraph" // text at the end of the leading system text
	AddTools     = "tools"     // our tools, behind the client's
	AddNudge     = "nudge"     // text at the end of the list
	AddEcho      = "echo"      // private rounds of element N, at place From of the view
	AddStrict    = "strict"    // the route takes no neighbours of one role; no bytes
)

// Turn is the inbound part of a turn row, written by the commit.
type Turn struct {
	ID                int64
	Ledger            string // "" for traffic that belongs to no ledger
	World             World  // for turns without a ledger, so that pages can group them
	At                int64  // unix ms
	Home              Home
	Model             string
	Route             string // name of the upstream route
	WireIn, WireOut   string
	Path              Path
	Gate              string
	Stream            bool
	Encoding          string // content encoding the client's body arrived in
	BytesIn, BytesOut int64  // decoded body sizes
	// InHash and OutHash name the decoded bodies.
	InHash, OutHash content.ID
	// Kept is false for turns recorded by size and hash only.
	Kept     bool
	Skeleton []byte
	// Fields are the large top-level fields that differ from turn List.Prev's;
	// all of them when Prev is 0. AllFields are the current ones.
	Fields    []FieldRef
	AllFields []FieldRef
	List      TurnList
	// View is the outbound list when it is not the inbound one; nil otherwise.
	View []ViewRun
}

// Echo is the private rounds behind one element of the client's list.
type Echo struct {
	// N is the element, or 0 while the client has not sent it yet.
	N      int64
	Rounds []byte // JSON
}

// Commit is one transaction: append, apply, seal. Storage carries it out as
// given and decides nothing. A commit without a turn (Turn.ID 0) changes the
// folds alone.
type Commit struct {
	// Create inserts Head; otherwise the row must still have version Base.
	Create bool
	Base   int64
	Head   Head
	// Full asks for synchronous=FULL (folds); NORMAL otherwise.
	Full bool

	Turn     Turn
	Elements []Element
	States   []StateChange
	// Reblobs give stored elements the bytes of this turn's wire (kept in a wire
	// switch, or coming back after one): the element row names the new blob from
	// now on, refs follow.
	Reblobs []Reblob
	Blobs   []Blob
	Rows    []Row
	Flips   []Flip
	World   *WorldRow
	Check   *Checkpoint
	// Holds are the bodies of blocks that are new in Head.Structure, one for each.
	// Their bytes are among Blobs unless the ledger has them.
	Holds []content.ID
	// Echoes are private rounds, each attached to the element that carries their
	// answer.
	Echoes []Echo
	// Cause is the cause_id of this commit, "" for none; Outcome is kept under it
	// for repeated calls, nil for none.
	Cause   string
	Outcome []byte

	// Waited is set by Commit: how long it stood in line for the write lock. The
	// budget of a commit counts from there.
	Waited time.Duration
}

// WorldRow is one row of l1_world.
type WorldRow struct {
	World
	Branch    int
	Ledger    string
	Mode      Mode
	Route     Route
	Bucket    int
	Epoch     int64
	Parent    string
	ForkElem  int64
	CreatedAt int64
	LastSeen  int64
}

// RestampPlan replaces the rows of a ledger: Rows are written inactive in
// chunks off the request path, then flipped with the epoch in one transaction
// that fails with ErrStale unless the session still has version Head.Version.
type RestampPlan struct {
	Head Head // as it will be: Epoch+1, HeadSeq+1, NeedsRestamp cleared
	// Base is the version it was planned from; Head.Version is higher when folds
	// ended with the re-stamp.
	Base   int64
	Rows   []Row
	States []StateChange
	World  WorldRow
	Check  Checkpoint
}

// TurnDone completes a turn row after the reply.
type TurnDone struct {
	ID         int64
	Ledger     string
	FinishedAt int64
	Status     int // upstream status; 0 when it was never reached
	Truncated  bool
	Error      string // closed list of causes, "" for none; no content
	Model      string // as the reply named it
	StopReason string
	Usage      usage.Usage
	Reported   bool // the upstream reported Usage
	CostMicros int64
	Priced     bool
	Rounds     int
	Ms         StageTimes
	// Receipt is what a local engine did not have to compute; nil for others.
	Receipt    *usage.Receipt
	BytesOut   int64
	PrefixSame int64
	Change     *FirstChange
	Verdict    Verdict
	VerdictWhy string
	// Response are the relayed bytes as they came (still encoded); nil when not
	// kept, ResponseWhy then says why. Marks are varint pairs (end offset delta,
	// ms delta) of the chunks as they arrived.
	Response         []byte
	ResponseWhy      string
	ResponseEncoding string
	ResponseType     string
	ResponseHash     content.ID
	ResponseBytes    int64
	Marks            []byte
	// Path and Gate are how the turn was served after all, when a gate fired
	// behind the commit; "" leaves what the commit wrote. Plain says that the
	// outbound list was the inbound one in the end: View is cleared and OutHash
	// becomes InHash.
	Path  Path
	Gate  string
	Plain bool
	// View, when not nil, and OutHash replace what the commit wrote: another view
	// left in the end. Its additions are among those of the commit.
	View    []ViewRun
	OutHash content.ID
	// LastGate, Breaker and NeedsRestamp update the session row when set.
	LastGate     *string
	Breaker      *Breaker
	NeedsRestamp *string
	// Rhythm is the kernel's rhythm after the reply, nil to leave it.
	Rhythm []byte
	// Echo are the private rounds of this turn, kept as Echo with N 0 until the
	// client sends the element they belong to; nil for none.
	Echo []byte
}

// StageTimes are the stage timings of a turn in milliseconds.
type StageTimes struct {
	Identify      float64 `json:"identify"`
	Decode        float64 `json:"decode"`
	Rewrite       float64 `json:"rewrite"`
	Apply         float64 `json:"apply"`
	Encode        float64 `json:"encode"`
	UpstreamFirst float64 `json:"upstream_first"`
	Stream        float64 `json:"stream"`
}

// TurnRecord is a stored turn as replay and the change report need it.
type TurnRecord struct {
	Turn
	Done *TurnDone // nil while in flight; Response is not loaded
	// Items is the resolved inbound list.
	Items []ListItem
	// Why says why the bodies are not kept, "" when they are; it names the step
	// of the lifecycle that took them.
	Why string
}

// KnownCause is Commit's answer to a cause that was carried out before: nothing
// is written, and Outcome is what it led to then.
type KnownCause struct {
	Cause   string
	Outcome []byte
}

func (k *KnownCause) Error() string { return "session: cause " + k.Cause + " was carried out before" }

// MaxLengths is how many past sessions say how long one goes on.
const MaxLengths = 200

// Ledger is the store of conversations. One suite (ledgertest) holds every
// implementation to it. All methods are safe for concurrent use; writes are
// serialised by the implementation.
type Ledger interface {
	// NextTurn returns a turn id never used before in this file.
	NextTurn() int64
	// Heads returns the branches of a world, oldest first.
	Heads(ctx context.Context, w World) ([]Head, error)
	// Unsigned returns the unsigned sessions whose list sum is one of sums.
	Unsigned(ctx context.Context, sums []content.ID) ([]Head, error)
	// Lengths are the turns of a host's main sessions that were last seen before a
	// time in unix ms, the newest first, at most MaxLengths.
	Lengths(ctx context.Context, signal string, before int64) ([]int, error)
	// Load hydrates one branch. A failing check is State.Red, not an error.
	Load(ctx context.Context, ledger string) (*State, error)
	// FindRewound returns the newest rewound element with this key that stood
	// behind prev, with its inactive rows of the epoch; ErrUnknown when none.
	FindRewound(ctx context.Context, ledger string, epoch int64, key content.ID, prev int64) (Element, []Row, error)
	// Elements returns stored elements by number, in the order asked.
	Elements(ctx context.Context, ledger string, ns []int64) ([]Element, error)
	// Stored returns every element of a ledger that still has its bytes, in any
	// state, in order of arrival: what can be searched.
	Stored(ctx context.Context, ledger string) ([]Element, error)
	// Donors returns ledgers that hold folded elements with these keys, the one
	// with the most first, at most limit.
	Donors(ctx context.Context, keys []content.ID, limit int) ([]string, error)
	// Echoes returns the private rounds of a ledger by element; 0 for those whose
	// element has not come yet.
	Echoes(ctx context.Context, ledger string) (map[int64][]byte, error)
	// Outcome returns what a cause led to before, if it was carried out.
	Outcome(ctx context.Context, ledger, cause string) (out []byte, found bool, err error)
	// Rows returns rows by id with every sum verified.
	Rows(ctx context.Context, ledger string, ids []int64) ([]Row, error)
	// Blob returns kept bytes, media restored, verified by hash.
	Blob(ctx context.Context, id content.ID) ([]byte, error)
	// Commit is the commit point of a turn; see package chain.
	Commit(ctx context.Context, c *Commit) error
	// Record writes a turn that belongs to no ledger (side, bypassed, verbatim).
	Record(ctx context.Context, t Turn) error
	// Finish completes a turn row and adds to its session's totals.
	Finish(ctx context.Context, d *TurnDone) error
	// Degrade stores a step down and returns its id.
	Degrade(ctx context.Context, d DegradeView) (int64, error)
	// Restamp carries out a plan; see RestampPlan.
	Restamp(ctx context.Context, p *RestampPlan) error
	// Turn returns one stored turn with its list resolved.
	Turn(ctx context.Context, id int64) (*TurnRecord, error)
	// Response returns the kept reply bytes of a turn.
	Response(ctx context.Context, id int64) ([]byte, error)
	// Setting and SetSetting keep small values that outlive everything (bucket
	// salt); Setting returns ErrUnknown when absent.
	Setting(ctx context.Context, key string) ([]byte, error)
	SetSetting(ctx context.Context, key string, val []byte) error
}
