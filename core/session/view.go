package session

import "holdfast/core/usage"

// Path is how a turn was served.
type Path string

// The paths, best first.
const (
	PathSnapshot Path = "snapshot"
	PathFull     Path = "full"
	PathVerbatim Path = "verbatim"
)

// Route is what a session is meant to be served by, before gates.
type Route string

// The routes.
const (
	RouteFull     Route = "full"
	RouteShadow   Route = "shadow"
	RouteSnapshot Route = "snapshot"
)

// Verdict is the outcome of comparing the two paths.
type Verdict string

// The verdicts. Drift means equal keys, unequal bytes.
const (
	NotCompared Verdict = ""
	ByteEqual   Verdict = "equal"
	Drift       Verdict = "drift"
	Different   Verdict = "different"
	Skipped     Verdict = "skipped"
)

// SessionView is the JSON object session of the contract, version 1.
type SessionView struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Signal  string `json:"signal"`
	SessRaw string `json:"sess_raw"`
	Lane    string `json:"lane"`
	Parent  string `json:"parent,omitempty"`
	Mode    Mode   `json:"mode"`
	// Route is mode × membership at the moment of reading; who reads Member fills it in.
	Route     Route     `json:"route"`
	Member    bool      `json:"-"`
	Epoch     int64     `json:"epoch"`
	Wire      string    `json:"wire"`
	Model     string    `json:"model"`
	Window    int64     `json:"window"`
	CreatedAt int64     `json:"created_at"`
	LastSeen  int64     `json:"last_seen"`
	Turns     int64     `json:"turns"`
	Elements  int64     `json:"elements"`
	Live      int64     `json:"live"`
	Folded    int64     `json:"folded"`
	Blocks    int64     `json:"blocks"`
	Tokens    TokenView `json:"tokens"`
	Cost      CostView  `json:"cost"`
	CacheHit  float64   `json:"cache_hit"` // cached share of all input tokens, 0 to 1
	LastGate  string    `json:"last_gate"`
	Breaker   Breaker   `json:"breaker"`
}

// TokenView are a session's token sums. Inbound is what the client asked the
// model to read, Outbound what was sent; they are equal until something folds.
type TokenView struct {
	Inbound    usage.Tokens `json:"inbound"`
	Outbound   usage.Tokens `json:"outbound"`
	Cached     usage.Tokens `json:"cached"`
	CacheWrite usage.Tokens `json:"cache_write"`
	Output     usage.Tokens `json:"output"`
}

// CostView are list-price costs in units of Currency.
type CostView struct {
	Direct   float64 `json:"direct"`
	Sent     float64 `json:"sent"`
	Saved    float64 `json:"saved"`
	Currency string  `json:"currency"`
	Estimate bool    `json:"estimate"`
}

// RowView is the JSON object row.
type RowView struct {
	RowID     int64        `json:"row_id"`
	Pos       int64        `json:"pos"`
	Sub       int32        `json:"sub"`
	Elem      int64        `json:"elem"`
	Ref       string       `json:"ref"`
	Role      string       `json:"role"`
	Kind      string       `json:"kind"`
	Tool      string       `json:"tool"`
	Tokens    usage.Tokens `json:"tokens"`
	State     ElemState    `json:"state"`
	CoveredBy string       `json:"covered_by"`
	Cause     string       `json:"cause"`
	Bytes     int64        `json:"bytes"`
	Hash      string       `json:"hash"`
	FirstTurn int64        `json:"first_turn"`
}

// CoverageView is the JSON object coverage; intervals are half-open, in pos.
type CoverageView struct {
	PosHi         int64            `json:"pos_hi"`
	TokensTotal   usage.Tokens     `json:"tokens_total"`
	Spans         []SpanView       `json:"spans"`
	Live          []IntervalView   `json:"live"`
	ProtectedFrom int64            `json:"protected_from"`
	Checkpoints   []CheckpointView `json:"checkpoints"`
	KV            []KVView         `json:"kv"`
}

// SpanView is one folded span.
type SpanView struct {
	Block    string       `json:"block"`
	Tier     int          `json:"tier"`
	From     int64        `json:"from"`
	To       int64        `json:"to"`
	Tokens   usage.Tokens `json:"tokens"`
	Anchor   int64        `json:"anchor"`
	Children []string     `json:"children"`
	// Within is the block of a higher tier that holds this one, "" for a block
	// that stands in the view.
	Within string `json:"within,omitempty"`
	Topic  string `json:"topic"`
	Saved  struct {
		Projected float64 `json:"projected"`
		Realised  float64 `json:"realised"`
	} `json:"saved"`
}

// IntervalView is a run of live positions.
type IntervalView struct {
	From   int64        `json:"from"`
	To     int64        `json:"to"`
	Tokens usage.Tokens `json:"tokens"`
}

// CheckpointView is one checkpoint tick.
type CheckpointView struct {
	Seq    int64  `json:"seq"`
	Pos    int64  `json:"pos"`
	Reason string `json:"reason"`
	At     int64  `json:"at"`
}

// KVView is one run of the engine's cache under the strip.
type KVView struct {
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	State string `json:"state"` // KVResident, KVDisk or KVCold
}

// TurnView is the JSON object turn.
type TurnView struct {
	ID        int64          `json:"id"`
	Session   string         `json:"session"`
	At        int64          `json:"at"`
	Model     string         `json:"model"`
	Route     string         `json:"route"`
	Home      Home           `json:"home"`
	Path      Path           `json:"path"`
	Gate      string         `json:"gate"`
	WireIn    string         `json:"wire_in"`
	WireOut   string         `json:"wire_out"`
	Status    int            `json:"status"`
	Truncated bool           `json:"truncated"`
	Error     string         `json:"error,omitempty"`
	Bytes     TurnBytes      `json:"bytes"`
	Change    *FirstChange   `json:"first_change"`
	Ms        StageTimes     `json:"ms"`
	Usage     usage.Usage    `json:"usage"`
	Rounds    int            `json:"rounds"`
	Fold      []string       `json:"fold"`
	Receipt   *usage.Receipt `json:"receipt"` // of a local engine with the KV tier; null otherwise
	Compared  Verdict        `json:"compared"`
	Kept      bool           `json:"kept"`
}

// TurnBytes are decoded body sizes; PrefixSame is the length of the outbound
// prefix equal to the previous turn's.
type TurnBytes struct {
	In         int64 `json:"in"`
	Out        int64 `json:"out"`
	PrefixSame int64 `json:"prefix_same"`
}

// FirstChange is the first byte of the outbound body that differs from the
// previous turn's, a plain extension of the list apart.
type FirstChange struct {
	Offset   int64  `json:"offset"`
	JSONPath string `json:"json_path"`
	Old      string `json:"old"` // at most ChangeText bytes of the old value around the change
	New      string `json:"new"`
	Cause    string `json:"cause"` // closed list, see change.go
	By       string `json:"by"`    // client, holdfast or time
}

// DegradeView is the JSON object degrade: one recorded step down.
type DegradeView struct {
	ID           int64  `json:"id"`
	At           int64  `json:"at"`
	Session      string `json:"session"`
	Turn         int64  `json:"turn"`
	Gate         string `json:"gate"`
	Scope        string `json:"scope"` // turn, session or group
	Cause        string `json:"cause"` // closed list, see gate.go
	Evidence     string `json:"evidence"`
	Served       Path   `json:"served"`
	BytesChanged bool   `json:"bytes_changed"`
}

// Evidence is the rollout evidence of status.
type Evidence struct {
	Turns       int64            `json:"turns"` // turns compared
	ByteEqual   int64            `json:"byte_equal"`
	Drift       map[string]int64 `json:"drift"`
	Differences int64            `json:"differences"`
	Faults      int64            `json:"faults"`
	ByGroup     []GroupEvidence  `json:"by_group"`
}

// GroupEvidence is the evidence of one (signal, wire) group.
type GroupEvidence struct {
	Signal string `json:"signal"`
	Wire   string `json:"wire"`
	Turns  int64  `json:"turns"`
	Faults int64  `json:"faults"`
	State  string `json:"state"` // ok, or held in shadow
}
