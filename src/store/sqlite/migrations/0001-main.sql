-- Small integers stand for words in the hot tables. The lists are in ../names.ts and are never reordered.

-- Accounts, sources, routes, event kinds and secret fingerprints, each written once.
CREATE TABLE names (
  id   INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  UNIQUE (kind, name)
) STRICT;

-- The routes' verdicts on an event, as JSON [[route, verdict, reason?], …]. Few differ, so each list is stored once.
CREATE TABLE plans (
  id       INTEGER PRIMARY KEY,
  verdicts TEXT NOT NULL UNIQUE
) STRICT;

-- The process that holds the file, and up to when retention has purged (../purge.ts).
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Every verified event, in the order of acceptance. seq grows and is never reused: retention always leaves the greatest one.
CREATE TABLE events (
  seq             INTEGER PRIMARY KEY,
  account         INTEGER NOT NULL,
  id              ANY,              -- 16 bytes for a canonical UUID, else text; NULL when quarantined
  kind            INTEGER,          -- NULL when quarantined
  source          INTEGER NOT NULL,
  origin          INTEGER NOT NULL,
  received_at     INTEGER NOT NULL, -- unix ms
  created_at      INTEGER,          -- unix ms, the envelope's createdAt
  secret          INTEGER,          -- the secret that verified it
  subject         INTEGER,          -- 2 × messages.seq, or 2 × runs.seq + 1
  status          TEXT,             -- the event's own status word
  previous_status TEXT,             -- of its message or run, before it
  moved           INTEGER NOT NULL, -- 1 when it was a transition
  error_code      TEXT,
  disposition     INTEGER NOT NULL,
  plan            INTEGER,
  parked_until    INTEGER,          -- unix ms; NULL when no route holds it back
  duplicates      INTEGER NOT NULL DEFAULT 0,
  conflicts       INTEGER NOT NULL DEFAULT 0, -- duplicates whose bytes differed
  fault           TEXT,             -- why it is quarantined
  headers         TEXT,             -- JSON; the signature's headers and an unusual content type
  body            BLOB NOT NULL,    -- the bytes received
  release         INTEGER,          -- of a released body: seq of the event that it became; of that event: seq of the body
  mask            INTEGER           -- number of its masked id; NULL when logs show the id
) STRICT;

-- One event per account and id: deduplication rests on this index.
CREATE UNIQUE INDEX events_by_id ON events (account, id) WHERE id IS NOT NULL;
CREATE INDEX events_by_subject ON events (subject) WHERE subject IS NOT NULL;
CREATE INDEX events_parked ON events (parked_until) WHERE parked_until IS NOT NULL;
CREATE INDEX events_by_mask ON events (mask) WHERE mask IS NOT NULL;
CREATE INDEX events_by_error ON events (error_code) WHERE error_code IS NOT NULL;
CREATE INDEX events_ignored ON events (received_at) WHERE disposition = 2;
CREATE INDEX events_quarantined ON events (received_at) WHERE disposition = 3;
CREATE INDEX events_quarantined_by_seq ON events (disposition) WHERE disposition = 3;
-- Few events come from polls.
CREATE INDEX events_learned ON events (account) WHERE origin <> 0;
-- Retention purges kinds without events (../names.ts). Usual files have far fewer names, so this index stays empty.
CREATE INDEX events_by_rare_kind ON events (kind) WHERE kind > 1024;

-- Every message whose wamid was registered or seen.
CREATE TABLE messages (
  seq             INTEGER PRIMARY KEY,
  account         INTEGER NOT NULL,
  wamid           TEXT NOT NULL,
  service_id      TEXT,
  reference       TEXT,
  metadata        TEXT,    -- JSON object
  registered_at   INTEGER, -- unix ms; NULL: only seen
  status          TEXT,
  error_code      TEXT,
  times           TEXT NOT NULL, -- JSON {status: earliest time in unix ms}
  updated_at      INTEGER NOT NULL,
  conversation_id TEXT,
  told_sent_at    INTEGER, -- unix ms, the earliest send time that a registration gave
  asked_at        INTEGER, -- unix ms at which a hydration pass read it
  missing         INTEGER, -- 1: the service does not know it and asks.next_at is NULL. Here, because events read this row anyway.
  mask            INTEGER NOT NULL, -- number of its masked wamid: the first 48 bits of the SHA-256
  id_mask         INTEGER, -- the same of service_id; NULL when logs show it
  phone           INTEGER, -- the last four digits of the phone number in the wamid
  UNIQUE (account, wamid)
) STRICT;
CREATE INDEX messages_by_reference ON messages (reference) WHERE reference IS NOT NULL;
CREATE INDEX messages_by_service_id ON messages (service_id) WHERE service_id IS NOT NULL;
CREATE INDEX messages_by_mask ON messages (mask);
CREATE INDEX messages_by_id_mask ON messages (id_mask) WHERE id_mask IS NOT NULL;
CREATE INDEX messages_by_phone ON messages (phone) WHERE phone IS NOT NULL;
CREATE INDEX messages_by_error ON messages (error_code) WHERE error_code IS NOT NULL;
-- The list of failed messages: few fail. It costs 0.1 µs where a status changes.
CREATE INDEX messages_failed ON messages (status) WHERE status = 'failed';
-- Registered messages that cannot and can be polled. No column of these two indexes changes with a status.
CREATE INDEX messages_unaskable ON messages (account, registered_at) WHERE registered_at IS NOT NULL AND service_id IS NULL;
CREATE INDEX messages_askable ON messages (account, registered_at) WHERE registered_at IS NOT NULL AND service_id IS NOT NULL;

CREATE TABLE runs (
  seq           INTEGER PRIMARY KEY,
  account       INTEGER NOT NULL,
  run_id        TEXT NOT NULL,
  reference     TEXT,
  metadata      TEXT,
  registered_at INTEGER,
  status        TEXT,
  error         TEXT,
  ended         INTEGER NOT NULL, -- 1 when its status is final
  times         TEXT NOT NULL,    -- JSON {status: earliest time in unix ms}
  updated_at    INTEGER NOT NULL,
  mask          INTEGER,          -- number of its masked id; NULL when logs show the id
  UNIQUE (account, run_id)
) STRICT;
CREATE INDEX runs_by_reference ON runs (reference) WHERE reference IS NOT NULL;
CREATE INDEX runs_by_mask ON runs (mask) WHERE mask IS NOT NULL;
CREATE INDEX runs_open ON runs (account) WHERE registered_at IS NOT NULL AND ended = 0;

-- Messages and runs that were registered while more events were parked for them than one transaction releases.
CREATE TABLE releases (
  subject INTEGER PRIMARY KEY,
  after   INTEGER NOT NULL -- seq of the last event that was released; 0: none yet
) STRICT;

-- One event for one route. The primary key allows at most one.
CREATE TABLE deliveries (
  event      INTEGER NOT NULL,
  route      INTEGER NOT NULL,
  state      INTEGER NOT NULL,
  subject    INTEGER,          -- orders it among the deliveries of its message or run; NULL: unordered
  next_at    INTEGER,          -- unix ms, while waiting
  attempts   INTEGER NOT NULL, -- made in all
  spent      INTEGER NOT NULL, -- made since it was planned or last replayed: its place in the schedule
  replays    INTEGER NOT NULL,
  settled_at INTEGER,          -- unix ms at which it was delivered or died
  reason     TEXT,             -- why it is dead
  cause      TEXT,             -- why the last failed attempt since it was planned or replayed failed
  PRIMARY KEY (event, route)
) STRICT, WITHOUT ROWID;

-- The cause is in two of these, so that groups by cause are counted without reading the rows.
CREATE INDEX deliveries_due ON deliveries (route, next_at, event, cause) WHERE state = 0;
CREATE INDEX deliveries_open ON deliveries (subject, route, state, event) WHERE state <= 1 AND subject IS NOT NULL;
CREATE INDEX deliveries_dead ON deliveries (route, event, cause) WHERE state = 3;

CREATE TABLE attempts (
  event    INTEGER NOT NULL,
  route    INTEGER NOT NULL,
  number   INTEGER NOT NULL,
  at       INTEGER NOT NULL, -- unix ms
  took_ms  INTEGER NOT NULL,
  status   INTEGER,          -- HTTP status of the answer
  error    TEXT,             -- why no answer came
  response BLOB,             -- first 4 KiB
  PRIMARY KEY (event, route, number)
) STRICT, WITHOUT ROWID;

-- Routes whose destination answered 410 Gone, or that an operator stopped.
CREATE TABLE stopped (
  route      INTEGER PRIMARY KEY,
  stopped_at INTEGER NOT NULL,
  reason     TEXT NOT NULL
) STRICT;

-- Routes whose destination asked for a pause (429 with Retry-After).
CREATE TABLE paused (
  route   INTEGER PRIMARY KEY,
  breaker TEXT NOT NULL,    -- names the settings it holds for: other settings begin without a pause
  until   INTEGER NOT NULL  -- unix ms
) STRICT;

-- How often and when each secret verified a webhook: which of two is safe to drop. Counted in the transaction that
-- stores the event; retention does not lower it.
CREATE TABLE secret_uses (
  source     INTEGER NOT NULL,
  secret     INTEGER NOT NULL,
  events     INTEGER NOT NULL, -- quarantined ones included
  duplicates INTEGER NOT NULL, -- known ids that came again
  first_at   INTEGER NOT NULL, -- unix ms
  last_at    INTEGER NOT NULL,
  PRIMARY KEY (source, secret)
) STRICT, WITHOUT ROWID;

-- The event id of a signed automation request: the same bytes are the same event until then.
CREATE TABLE requests (
  seq     INTEGER PRIMARY KEY,
  request TEXT NOT NULL UNIQUE, -- digest of source and signature
  id      TEXT NOT NULL,        -- the event's
  until   INTEGER NOT NULL      -- unix ms
) STRICT;
CREATE INDEX requests_until ON requests (until);

-- Named listeners, and up to which event each has taken everything.
CREATE TABLE cursors (
  name     TEXT PRIMARY KEY,
  seq      INTEGER NOT NULL, -- events.seq; never goes back
  moved_at INTEGER NOT NULL  -- unix ms
) STRICT, WITHOUT ROWID;

-- What must happen once: used codes, and sessions that ended.
CREATE TABLE claims (
  key   TEXT PRIMARY KEY,
  until INTEGER NOT NULL -- unix ms
) STRICT, WITHOUT ROWID;

-- Sends through the relay, one row per key. Without a row the key is free.
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
-- Keys of messages are purged after their time; references of runs never are.
CREATE INDEX sends_by_age ON sends (started_at) WHERE kind = 0;

-- Messages to poll, from when their service id is known until their status is final. The triggers below fill it, so that
-- receiving, tracking and delivering never touch it; polls empty it.
CREATE TABLE asks (
  message  INTEGER PRIMARY KEY, -- messages.seq
  account  INTEGER NOT NULL,
  since    INTEGER NOT NULL,    -- unix ms at which it was sent, or else registered
  rank     INTEGER NOT NULL,    -- lower ones go first; 0: never polled
  next_at  INTEGER,             -- unix ms; while claimed, when the claim runs out; NULL: the service does not know the message
  asks     INTEGER NOT NULL,
  failures INTEGER NOT NULL,    -- in a row
  asked_at INTEGER,             -- unix ms of the last answer
  misses   INTEGER NOT NULL DEFAULT 0 -- 404s in a row while the service answered other polls: the second makes the message missing
) STRICT;
CREATE INDEX asks_due ON asks (account, rank, next_at) WHERE next_at IS NOT NULL;
CREATE INDEX asks_missing ON asks (account, asked_at) WHERE next_at IS NULL;

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

-- Calls to the service by the account's day: the rest of a month's quota is computed from them.
CREATE TABLE service_calls (
  account INTEGER NOT NULL,
  day     INTEGER NOT NULL, -- unix ms at which it began
  polls   INTEGER NOT NULL, -- by reconciliation and hydration
  others  INTEGER NOT NULL,
  PRIMARY KEY (account, day)
) STRICT, WITHOUT ROWID;

-- Calls to the service of the last minutes: a relay that starts again counts those of the one before.
CREATE TABLE recent_calls (
  at       INTEGER NOT NULL, -- unix ms
  account  INTEGER NOT NULL,
  cap      TEXT NOT NULL,    -- requests, messages
  priority TEXT NOT NULL     -- send, ask, poll
) STRICT;
CREATE INDEX recent_calls_at ON recent_calls (at);

-- Hydration of truncated events. The lists of states and reasons are in src/event/hydration.ts.
CREATE TABLE hydrations (
  event       INTEGER PRIMARY KEY, -- events.seq
  account     INTEGER NOT NULL,
  received_at INTEGER NOT NULL,    -- unix ms
  state       INTEGER NOT NULL,    -- 0 waiting, 1 done, 2 given up
  reason      INTEGER,             -- why it was given up
  target      TEXT,                -- the id in its data, until the service is known to have no such message
  subject     INTEGER,             -- of the message that the target named: only that one's updates count
  asked       INTEGER NOT NULL,    -- calls on its behalf
  found       INTEGER NOT NULL,    -- updates found by polling, in events after it up to `last`
  last        INTEGER,             -- the greatest events.seq when it was settled
  unknown     INTEGER,             -- candidates that were not read; NULL: not counted
  candidates  TEXT,                -- JSON [[run id, reference], …] of open runs
  settled_at  INTEGER              -- unix ms
) STRICT;
CREATE INDEX hydrations_waiting ON hydrations (account, event, received_at) WHERE state = 0;

-- Few events have no subject, and the truncated ones are among them.
CREATE TRIGGER hydrations_end AFTER DELETE ON events WHEN OLD.subject IS NULL BEGIN
  DELETE FROM hydrations WHERE event = OLD.seq;
END;

-- Hydration passes over an account's candidates; at most one is open per account.
CREATE TABLE hydration_passes (
  seq        INTEGER PRIMARY KEY,
  account    INTEGER NOT NULL,
  through    INTEGER NOT NULL, -- covers hydrations of events up to this one
  started_at INTEGER NOT NULL, -- unix ms
  asked      INTEGER NOT NULL, -- calls made
  ended_at   INTEGER           -- unix ms; NULL while it is open
) STRICT;
CREATE UNIQUE INDEX hydration_passes_open ON hydration_passes (account) WHERE ended_at IS NULL;
CREATE INDEX hydration_passes_ended ON hydration_passes (account, ended_at);

-- Counters of the history (src/model/history.ts): a series with the source or route and the label that it counts by.
CREATE TABLE history_names (
  id      INTEGER PRIMARY KEY,
  series  TEXT NOT NULL,
  subject INTEGER NOT NULL, -- names.id of a source or route; 0: none
  label   TEXT NOT NULL,    -- empty: none
  last_at INTEGER NOT NULL, -- unix minutes; at most an hour before it was counted last
  UNIQUE (series, subject, label)
) STRICT;

-- Counts of the last two days. By time, so that a transaction writes one page.
CREATE TABLE history_minutes (
  at      INTEGER NOT NULL, -- unix minutes
  counter INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  writes  INTEGER NOT NULL, -- grows with every write, so that an audit sees what changed while it read
  PRIMARY KEY (at, counter)
) STRICT, WITHOUT ROWID;

-- Counts of the time before. By counter, so that a year of one is read at once.
CREATE TABLE history_hours (
  counter INTEGER NOT NULL,
  at      INTEGER NOT NULL, -- unix minutes at which the hour began
  n       INTEGER NOT NULL,
  writes  INTEGER NOT NULL,
  PRIMARY KEY (counter, at)
) STRICT, WITHOUT ROWID;
