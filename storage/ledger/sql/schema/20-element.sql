-- element: one entry of a ledger's inbound lists, numbered once for ever.
CREATE TABLE element (
  ledger_id    TEXT NOT NULL,
  n            INTEGER NOT NULL,
  key          BLOB NOT NULL,                  -- BLAKE3 over its canonical ids; equal keys are equal elements
  ref          INTEGER NOT NULL,               -- number of the m-ref; 0 for none
  tokens       INTEGER NOT NULL,
  tokens_exact INTEGER NOT NULL,               -- 1 when the upstream counted them
  role         TEXT NOT NULL,
  kind         TEXT NOT NULL,                  -- of the first core
  blob         BLOB,                           -- hash of the stored bytes; null once the lifecycle took them
  state        TEXT NOT NULL CHECK (state IN ('live','folded','hidden','overlaid','removed','rewound','archived')),
  prev         INTEGER NOT NULL,               -- element before it when it was last in the list; 0 for the first
  first_turn   INTEGER NOT NULL,
  cores        BLOB NOT NULL,                  -- kind, canonical id and repeat of each core
  PRIMARY KEY (ledger_id, n)
) STRICT, WITHOUT ROWID;
-- Which folds hold this element, and did a rewound one come back? Only elements
-- in these states are ever looked for by key, so the others do not pay.
CREATE INDEX element_key ON element(key) WHERE state IN ('folded','rewound');

-- echo: private rounds of a turn, by the element that carries their answer; 0
-- while the client has not sent that yet.
CREATE TABLE echo (
  ledger_id TEXT NOT NULL,
  n         INTEGER NOT NULL,                  -- element
  rounds    BLOB NOT NULL,                     -- JSON
  PRIMARY KEY (ledger_id, n)
) STRICT, WITHOUT ROWID;

-- outcome: what a cause led to, so that a repeated call gets the same answer.
CREATE TABLE outcome (
  ledger_id TEXT NOT NULL,
  cause_id  TEXT NOT NULL,
  result    BLOB NOT NULL,
  at        INTEGER NOT NULL,                  -- unix ms
  PRIMARY KEY (ledger_id, cause_id)
) STRICT, WITHOUT ROWID;
