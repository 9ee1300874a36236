-- Who listens under a name, and up to which event everything has been taken there.
CREATE TABLE cursors (
  name     TEXT PRIMARY KEY,
  seq      INTEGER NOT NULL, -- events.seq; never goes back
  moved_at INTEGER NOT NULL  -- unix ms
) STRICT, WITHOUT ROWID;
