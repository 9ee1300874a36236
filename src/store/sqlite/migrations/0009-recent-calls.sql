-- Calls to the service of the last minutes, as they were let go: a relay that starts again counts those of the one before.
CREATE TABLE recent_calls (
  at       INTEGER NOT NULL, -- unix ms
  account  INTEGER NOT NULL,
  cap      TEXT NOT NULL,    -- requests, messages
  priority TEXT NOT NULL     -- send, ask, poll
) STRICT;
CREATE INDEX recent_calls_at ON recent_calls (at);
