-- turn: one model call. The commit writes the inbound part, Finish the rest.
-- Bodies are never stored whole: a list is a difference against an earlier
-- turn's, and everything between elements is the skeleton. The wide columns
-- stand last so that a listing does not read them.
CREATE TABLE turn (
  id           INTEGER PRIMARY KEY,
  ledger_id    TEXT,                           -- null for traffic that belongs to no ledger
  signal       TEXT,                           -- the world, where there is no ledger but the host named one
  sess_raw     TEXT,
  lane         TEXT,
  at           INTEGER NOT NULL,               -- unix ms
  home         TEXT NOT NULL,
  model        TEXT NOT NULL,                  -- as asked for
  route        TEXT NOT NULL,
  wire_in      TEXT NOT NULL,
  wire_out     TEXT NOT NULL,
  path         TEXT NOT NULL,
  gate         TEXT NOT NULL,
  stream       INTEGER NOT NULL,               -- 1 for a streamed reply
  encoding     TEXT NOT NULL,                  -- content encoding the body arrived in
  bytes_in     INTEGER NOT NULL,               -- decoded bytes
  bytes_out    INTEGER NOT NULL,               -- decoded bytes
  in_hash      BLOB,                           -- of the decoded body; null for none
  out_hash     BLOB,
  kept         INTEGER NOT NULL,               -- 1 when the bodies can be rebuilt
  why          TEXT NOT NULL,                  -- why they cannot; '' when they can
  finished_at  INTEGER NOT NULL DEFAULT 0,     -- unix ms; 0 while in flight
  status       INTEGER NOT NULL DEFAULT 0,     -- upstream status; 0 when it was never reached
  truncated    INTEGER NOT NULL DEFAULT 0,     -- 1 for a cut stream
  error        TEXT NOT NULL DEFAULT '',       -- closed list of causes
  reply_model  TEXT NOT NULL DEFAULT '',       -- as the reply named it
  stop_reason  TEXT NOT NULL DEFAULT '',
  input        INTEGER NOT NULL DEFAULT 0,     -- tokens
  cached       INTEGER NOT NULL DEFAULT 0,     -- tokens
  cache_write  INTEGER NOT NULL DEFAULT 0,     -- tokens
  output       INTEGER NOT NULL DEFAULT 0,     -- tokens
  source       TEXT NOT NULL DEFAULT '',       -- exact or estimate
  reported     INTEGER NOT NULL DEFAULT 0,     -- 1 when the upstream reported usage
  cost_micros  INTEGER NOT NULL DEFAULT 0,     -- millionths of the price table's currency
  priced       INTEGER NOT NULL DEFAULT 0,     -- 1 when the model has a price
  rounds       INTEGER NOT NULL DEFAULT 0,
  prefix_same  INTEGER NOT NULL DEFAULT 0,     -- bytes of the outbound prefix equal to the previous turn's
  verdict      TEXT NOT NULL DEFAULT '',       -- comparison of the two paths
  verdict_why  TEXT NOT NULL DEFAULT '',
  ms           TEXT,                           -- stage timings, JSON
  first_change TEXT,                           -- first changed byte and its cause, JSON; null for none
  reply_type   TEXT NOT NULL DEFAULT '',       -- content type
  reply_enc    TEXT NOT NULL DEFAULT '',       -- content encoding
  reply_bytes  INTEGER NOT NULL DEFAULT 0,     -- as relayed
  reply_hash   BLOB,                           -- as relayed
  reply_why    TEXT NOT NULL DEFAULT '',       -- why the reply is not kept; '' when it is
  list_prev    INTEGER NOT NULL,               -- turn whose list this one continues; 0 for a key frame
  list_common  INTEGER NOT NULL,               -- items taken from it
  list_own     INTEGER NOT NULL,               -- items of list before this one hold no blob reference
  list_depth   INTEGER NOT NULL,               -- turns since the last key frame
  fields       BLOB,                           -- name, hash and ownership of each large top-level field
  view         BLOB,                           -- outbound list where it is not the inbound one, JSON
  skeleton     BLOB,                           -- packed
  list         BLOB                            -- (n, raw hash) of each item after the common ones
) STRICT;
-- Which turns does this ledger have, newest first?
CREATE INDEX turn_ledger ON turn(ledger_id, id) WHERE ledger_id IS NOT NULL;

-- response: the reply of a turn as it was relayed.
CREATE TABLE response (
  turn_id INTEGER PRIMARY KEY,
  marks   BLOB,                                -- varint pairs: end offset delta, ms delta of each chunk
  data    BLOB NOT NULL                        -- packed
) STRICT;

-- response_id: ids an upstream gave its responses, and the ledger and origin
-- each may be continued from.
CREATE TABLE response_id (
  id        TEXT NOT NULL,
  origin    TEXT NOT NULL,                     -- upstream it came from; it is served nowhere else
  ledger_id TEXT NOT NULL,
  turn_id   INTEGER NOT NULL,
  PRIMARY KEY (id, origin)
) STRICT, WITHOUT ROWID;

-- degrade: one recorded step down.
CREATE TABLE degrade (
  id            INTEGER PRIMARY KEY,
  at            INTEGER NOT NULL,              -- unix ms
  ledger_id     TEXT,                          -- null for none
  turn_id       INTEGER NOT NULL,              -- 0 for none
  gate          TEXT NOT NULL,
  scope         TEXT NOT NULL,                 -- turn, session or group
  cause         TEXT NOT NULL,                 -- closed list
  evidence      TEXT NOT NULL,                 -- no content
  served        TEXT NOT NULL,                 -- path that served instead
  bytes_changed INTEGER NOT NULL               -- 1 when the user's bytes changed
) STRICT;
-- What stepped down since then?
CREATE INDEX degrade_at ON degrade(at);

-- tally: the rollout evidence counted per group, so that it outlives the turns
-- it was counted on and start-up reads a handful of rows.
CREATE TABLE tally (
  signal TEXT NOT NULL,
  wire   TEXT NOT NULL,
  what   TEXT NOT NULL,                        -- turn, fault, or a verdict of the comparison
  cause  TEXT NOT NULL,                        -- cause of a drift; '' otherwise
  n      INTEGER NOT NULL,
  PRIMARY KEY (signal, wire, what, cause)
) STRICT, WITHOUT ROWID;
