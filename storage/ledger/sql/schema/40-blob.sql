-- blob: bytes by the hash of what they are. refs counts the elements, list
-- items, fields, additions and blocks that name it; at 0 the row goes.
CREATE TABLE blob (
  id    INTEGER PRIMARY KEY,                   -- order of arrival: new bytes are written side by side
  hash  BLOB NOT NULL,                         -- BLAKE3 of the whole, media restored
  refs  INTEGER NOT NULL,
  size  INTEGER NOT NULL,                      -- bytes of the whole, media restored
  media BLOB,                                  -- (gap, length, hash) of each payload cut out; null for none
  data  BLOB NOT NULL                          -- packed
) STRICT;
-- Which bytes have this name?
CREATE UNIQUE INDEX blob_hash ON blob(hash);

-- message_media: base64 payloads cut out of blobs. refs counts blob rows.
CREATE TABLE message_media (
  hash    BLOB NOT NULL PRIMARY KEY,           -- BLAKE3 of the payload's text
  refs    INTEGER NOT NULL,
  decoded INTEGER NOT NULL,                    -- 1: data is the binary, standard base64 gives the text back
  data    BLOB NOT NULL
) STRICT;
