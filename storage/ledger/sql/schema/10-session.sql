-- session: one branch of a world, that is one ledger. It holds everything a
-- turn needs to continue: counters, the sealed kernel state and where the last
-- inbound list is told. Where a snapshot table holds the same fact, this row wins.
CREATE TABLE session (
  ledger_id         TEXT NOT NULL PRIMARY KEY,
  signal            TEXT NOT NULL,             -- what named the world; '' for unsigned
  sess_raw          TEXT NOT NULL,             -- the host's own id, whole
  lane              TEXT NOT NULL,
  branch            INTEGER NOT NULL,
  parent            TEXT,                      -- ledger_id it left or was forked from; null for none
  fork_elem         INTEGER NOT NULL,          -- last element shared with parent; 0 for none
  title             TEXT NOT NULL,             -- first user text, at most 80 runes
  model             TEXT NOT NULL,
  wire              TEXT NOT NULL,
  window            INTEGER NOT NULL,          -- tokens
  tools             INTEGER NOT NULL,          -- 1 when its requests offer tools
  mode              TEXT NOT NULL CHECK (mode IN ('cohort','degraded','unsigned')),
  bucket            INTEGER NOT NULL,          -- place in the rollout, 0 to 9999, fixed at first sight
  member            INTEGER NOT NULL,          -- 1 when inside the percentage at first sight
  epoch             INTEGER NOT NULL,          -- re-stamps so far
  version           INTEGER NOT NULL,          -- commits that changed the list: the compare-and-set value
  structure         BLOB,                      -- sealed kernel state, JSON
  structure_version INTEGER NOT NULL,
  sum               BLOB,                      -- BLAKE3 of structure
  rhythm            BLOB,                      -- never sealed, JSON; null for none
  head_seq          INTEGER NOT NULL,          -- newest checkpoint; 0 for none
  next_row_id       INTEGER NOT NULL,          -- the four counters never go back
  next_elem         INTEGER NOT NULL,
  next_ref          INTEGER NOT NULL,
  next_block        INTEGER NOT NULL,
  list_turn         INTEGER NOT NULL,          -- turn whose list is the last inbound one; 0 for none
  list_len          INTEGER NOT NULL,          -- elements in that list
  list_sum          BLOB,                      -- chained key sum of that list
  rewound           INTEGER NOT NULL,          -- elements in state rewound
  last_gate         TEXT NOT NULL,
  breaker           TEXT NOT NULL,             -- JSON
  needs_restamp     TEXT NOT NULL,             -- why the rows do not follow the list; '' when they do
  created_at        INTEGER NOT NULL,          -- unix ms
  last_seen         INTEGER NOT NULL,          -- unix ms
  turns             INTEGER NOT NULL DEFAULT 0, -- finished turns; this and the rest are totals over them
  input             INTEGER NOT NULL DEFAULT 0, -- tokens, cached ones apart
  cached            INTEGER NOT NULL DEFAULT 0, -- tokens
  cache_write       INTEGER NOT NULL DEFAULT 0, -- tokens
  output            INTEGER NOT NULL DEFAULT 0, -- tokens
  estimated         INTEGER NOT NULL DEFAULT 0, -- turns without an exact report
  bytes_in          INTEGER NOT NULL DEFAULT 0, -- decoded bytes
  bytes_out         INTEGER NOT NULL DEFAULT 0, -- decoded bytes
  cost_micros       INTEGER NOT NULL DEFAULT 0, -- millionths of the price table's currency
  unpriced          INTEGER NOT NULL DEFAULT 0, -- turns whose model has no price
  deleting          TEXT                       -- why it is on its way out; null for a session in use
) STRICT, WITHOUT ROWID;
-- Which branches does this world have? (An unsigned session has no world.)
CREATE UNIQUE INDEX session_world ON session(sess_raw, signal, lane, branch) WHERE signal <> '';
-- Which unsigned session has exactly this list?
CREATE INDEX session_unsigned ON session(list_sum) WHERE signal = '';

-- gone: sessions the budget took, so that a question about one is answered with
-- the step that took it. A session the owner deleted leaves nothing here.
CREATE TABLE gone (
  ledger_id TEXT NOT NULL PRIMARY KEY,
  step      TEXT NOT NULL,                     -- step of the lifecycle
  at        INTEGER NOT NULL                   -- unix ms
) STRICT, WITHOUT ROWID;

-- setting: small values that outlive everything, the bucket salt among them.
CREATE TABLE setting (
  key TEXT NOT NULL PRIMARY KEY,
  val BLOB NOT NULL
) STRICT, WITHOUT ROWID;
