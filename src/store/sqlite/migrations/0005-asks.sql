-- Messages that the service can be asked about, from when their id is known until they have come to rest. Filled by the
-- triggers below, so that what only receives, tracks and delivers never touches it; emptied by those who ask.
CREATE TABLE asks (
  message  INTEGER PRIMARY KEY, -- messages.seq
  account  INTEGER NOT NULL,
  since    INTEGER NOT NULL,    -- unix ms at which it was sent, as far as anybody told
  rank     INTEGER NOT NULL,    -- lower ones go first; 0: never asked
  next_at  INTEGER,             -- unix ms; while claimed, when the claim runs out; NULL: the service does not know the message
  asks     INTEGER NOT NULL,
  failures INTEGER NOT NULL,    -- in a row
  asked_at INTEGER              -- unix ms of the last answer
) STRICT;
CREATE INDEX asks_due ON asks (account, rank, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX asks_missing ON asks (account, asked_at) WHERE next_at IS NULL;

-- Registered messages without the service's id cannot be asked about. No column of it ever changes with a status.
CREATE INDEX messages_unaskable ON messages (account, registered_at) WHERE registered_at IS NOT NULL AND service_id IS NULL;

CREATE TRIGGER asks_begin AFTER INSERT ON messages WHEN NEW.service_id IS NOT NULL BEGIN
  INSERT OR IGNORE INTO asks (message, account, since, rank, next_at, asks, failures)
  VALUES (NEW.seq, NEW.account, coalesce(NEW.told_sent_at, NEW.registered_at), 0, coalesce(NEW.told_sent_at, NEW.registered_at), 0, 0);
END;
CREATE TRIGGER asks_begin_late AFTER UPDATE OF service_id ON messages WHEN OLD.service_id IS NULL AND NEW.service_id IS NOT NULL BEGIN
  INSERT OR IGNORE INTO asks (message, account, since, rank, next_at, asks, failures)
  VALUES (NEW.seq, NEW.account, coalesce(NEW.told_sent_at, NEW.registered_at), 0, coalesce(NEW.told_sent_at, NEW.registered_at), 0, 0);
END;
CREATE TRIGGER asks_end AFTER DELETE ON messages WHEN OLD.service_id IS NOT NULL BEGIN
  DELETE FROM asks WHERE message = OLD.seq;
END;

INSERT INTO asks (message, account, since, rank, next_at, asks, failures)
SELECT seq, account, coalesce(told_sent_at, registered_at), 0, coalesce(told_sent_at, registered_at), 0, 0
FROM messages WHERE service_id IS NOT NULL AND registered_at IS NOT NULL AND status IS NOT 'read';

-- Calls of the relay to the service, by the account's day: what is left of a month's quota rests on them.
CREATE TABLE service_calls (
  account INTEGER NOT NULL,
  day     INTEGER NOT NULL, -- unix ms at which it began
  polls   INTEGER NOT NULL, -- polling, by reconciliation and hydration
  others  INTEGER NOT NULL,
  PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;
