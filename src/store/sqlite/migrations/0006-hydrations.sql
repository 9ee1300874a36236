-- What became of events that came without their data: the list of states and reasons is in src/event/hydration.ts.
CREATE TABLE hydrations (
  event       INTEGER PRIMARY KEY, -- events.seq
  account     INTEGER NOT NULL,
  received_at INTEGER NOT NULL,    -- unix ms
  state       INTEGER NOT NULL,    -- 0 waiting, 1 done, 2 given up
  reason      INTEGER,             -- why it was given up
  target      TEXT,                -- the id that its data had, until it is known to name no message
  subject     INTEGER,             -- of the message that it named: only news of that one was meant
  asked       INTEGER NOT NULL,    -- calls on its behalf
  found       INTEGER NOT NULL,    -- news learned by asking, in events after it up to `last`
  last        INTEGER,             -- the greatest events.seq when it was settled
  unknown     INTEGER,             -- messages or runs that could be meant and were not read; NULL: not counted
  candidates  TEXT,                -- JSON [[run id, reference], …] of open runs
  settled_at  INTEGER              -- unix ms
) STRICT;
CREATE INDEX hydrations_waiting ON hydrations (account, event, received_at) WHERE state = 0;

-- Passes over the messages that could be meant; at most one is open per account.
CREATE TABLE sweeps (
  seq        INTEGER PRIMARY KEY,
  account    INTEGER NOT NULL,
  through    INTEGER NOT NULL, -- covers hydrations of events up to this one
  started_at INTEGER NOT NULL, -- unix ms
  asked      INTEGER NOT NULL, -- calls made
  ended_at   INTEGER           -- unix ms; NULL while it is open
) STRICT;
CREATE UNIQUE INDEX sweeps_open ON sweeps (account) WHERE ended_at IS NULL;
CREATE INDEX sweeps_ended ON sweeps (account, ended_at);

-- When a call that read the message for a sweep began, in unix ms.
ALTER TABLE messages ADD COLUMN asked_at INTEGER;
-- No column of it ever changes with a status; those without the service's id are in messages_unaskable.
CREATE INDEX messages_askable ON messages (account, registered_at) WHERE registered_at IS NOT NULL AND service_id IS NOT NULL;

CREATE INDEX runs_open ON runs (account) WHERE registered_at IS NOT NULL AND (status IS NULL OR status = 'started');
-- What was learned by asking is rare.
CREATE INDEX events_learned ON events (account) WHERE origin <> 0;

-- Events without a subject are few; the truncated ones are among them.
CREATE TRIGGER hydrations_end AFTER DELETE ON events WHEN OLD.subject IS NULL BEGIN
  DELETE FROM hydrations WHERE event = OLD.seq;
END;
