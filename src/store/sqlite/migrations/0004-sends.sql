-- What was sent through the relay, once per key. Without a row the key is free.
CREATE TABLE sends (
  seq         INTEGER PRIMARY KEY,
  account     INTEGER NOT NULL,
  kind        INTEGER NOT NULL, -- 0 message, 1 run
  key         TEXT NOT NULL,    -- the idempotency key, or a run's reference
  state       INTEGER NOT NULL, -- 0 calling, 1 done, 2 unknown
  fingerprint TEXT NOT NULL,
  tries       INTEGER NOT NULL,
  about       TEXT NOT NULL,    -- a masked phone, or an automation
  caller      TEXT NOT NULL,    -- which opening of the store made the latest call
  started_at  INTEGER NOT NULL, -- unix ms, of the latest call
  answer      TEXT,             -- JSON, once it is done
  UNIQUE (account, kind, key)
) STRICT;
-- Keys of messages are forgotten after their time; references of runs never are.
CREATE INDEX sends_by_age ON sends (started_at) WHERE kind = 0;

CREATE INDEX messages_by_service_id ON messages (service_id) WHERE service_id IS NOT NULL;
CREATE INDEX runs_by_reference ON runs (reference) WHERE reference IS NOT NULL;
