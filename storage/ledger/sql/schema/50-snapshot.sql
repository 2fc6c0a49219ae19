-- The four snapshot tables. They may be dropped at any time: everything else
-- works without them and the next open makes them anew. Times are unix ms.

-- l1_world: which ledger serves a world, and how.
CREATE TABLE IF NOT EXISTS l1_world (
  signal        TEXT NOT NULL,
  sess_raw      TEXT NOT NULL,
  lane          TEXT NOT NULL DEFAULT 'main',
  branch        INTEGER NOT NULL DEFAULT 0,
  ledger_id     TEXT NOT NULL,
  mode          TEXT NOT NULL CHECK (mode IN ('cohort','degraded')),
  route         TEXT NOT NULL CHECK (route IN ('full','shadow','snapshot')),
  bucket        INTEGER NOT NULL,              -- 0 to 9999
  epoch         INTEGER NOT NULL DEFAULT 0,    -- +1 per re-stamp
  parent_ledger TEXT,                          -- null for none
  fork_elem     INTEGER,                       -- null for none
  created_at    INTEGER NOT NULL,
  last_seen     INTEGER NOT NULL,
  PRIMARY KEY (sess_raw, signal, lane, branch)
) STRICT, WITHOUT ROWID;

-- snap_rows: one row a core; birth columns never change, the mutable ones only
-- together with state_sum.
CREATE TABLE IF NOT EXISTS snap_rows (
  ledger_id  TEXT NOT NULL,
  row_id     INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  pos        INTEGER NOT NULL,                 -- place of the element in this epoch
  sub        INTEGER NOT NULL,                 -- part in it; a carrier has its first folded pos and -1
  elem       INTEGER NOT NULL,                 -- element.n
  sess_raw   TEXT,                             -- null for none
  msgid      TEXT,                             -- null where the host sends no ids
  canon_id   TEXT NOT NULL,
  kind       TEXT NOT NULL,
  role       TEXT NOT NULL,
  ctype      TEXT NOT NULL,
  tool_name  TEXT,                             -- null for none
  call_id    TEXT,                             -- null for none
  wire       TEXT NOT NULL,
  raw        BLOB NOT NULL,                    -- blob hash
  overlay    BLOB,                             -- null for none; mutable from here
  active     INTEGER NOT NULL,
  covered_by TEXT,                             -- null for none
  cause      TEXT,                             -- null for none
  row_sum    BLOB NOT NULL,                    -- 16 bytes over the birth columns
  state_sum  BLOB NOT NULL,                    -- 16 bytes over row_sum and the mutable columns
  born_ck    INTEGER NOT NULL,                 -- ckpt.seq
  changed_ck INTEGER NOT NULL,                 -- ckpt.seq
  created_at INTEGER NOT NULL,
  PRIMARY KEY (ledger_id, row_id)
) STRICT, WITHOUT ROWID;
-- What does the model see, in order? One row a place.
CREATE UNIQUE INDEX IF NOT EXISTS snap_live ON snap_rows(ledger_id, pos, sub) WHERE active = 1;
-- Where is the element with this id? One live row an id.
CREATE UNIQUE INDEX IF NOT EXISTS snap_id ON snap_rows(ledger_id, msgid, sub) WHERE msgid IS NOT NULL AND active = 1;
-- Was this element ever seen?
CREATE INDEX IF NOT EXISTS snap_seen ON snap_rows(sess_raw, msgid) WHERE msgid IS NOT NULL;

-- ckpt: the sealed state after a commit.
CREATE TABLE IF NOT EXISTS ckpt (
  ledger_id  TEXT NOT NULL,
  seq        INTEGER NOT NULL,
  epoch      INTEGER NOT NULL,
  pos_hi     INTEGER NOT NULL,
  row_hi     INTEGER NOT NULL,
  reason     TEXT NOT NULL,
  cause_id   TEXT,                             -- null for none
  meta_json  TEXT NOT NULL,                    -- kernel seal, coverage, aggregate, witnesses
  frame_sig  BLOB,                             -- null for none
  created_at INTEGER NOT NULL,
  PRIMARY KEY (ledger_id, seq)
) STRICT, WITHOUT ROWID;
-- Was this cause carried out?
CREATE UNIQUE INDEX IF NOT EXISTS ckpt_cause ON ckpt(ledger_id, cause_id) WHERE cause_id IS NOT NULL;

-- snap_meta: pending marks, breaker and tripwire state by scope.
CREATE TABLE IF NOT EXISTS snap_meta (
  scope      TEXT NOT NULL,
  key        TEXT NOT NULL,
  val        TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
