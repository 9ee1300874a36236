-- Which event a signed automation request is, for a while: the same bytes are the same event until then.
CREATE TABLE requests (
  request TEXT PRIMARY KEY, -- digest of source and signature
  id      TEXT NOT NULL,    -- the event's
  until   INTEGER NOT NULL  -- unix ms
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_until ON requests (until);
