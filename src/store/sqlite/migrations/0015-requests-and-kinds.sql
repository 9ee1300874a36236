-- Which event a signed automation request is, for a while: the same bytes are the same event until then.
CREATE TABLE requests (
  seq     INTEGER PRIMARY KEY,
  request TEXT NOT NULL UNIQUE, -- digest of source and signature
  id      TEXT NOT NULL,        -- the event's
  until   INTEGER NOT NULL      -- unix ms
) STRICT;
CREATE INDEX requests_until ON requests (until);

-- Retention takes away kinds that no event has any more (../names.ts). Usual files have far fewer names, and nothing in it.
CREATE INDEX events_by_rare_kind ON events (kind) WHERE kind > 1024;
