-- Small integers stand for words in the hot tables; the lists are in ../codes.ts and never reordered.

-- Accounts, sources, routes, event kinds and secret fingerprints, each written once.
CREATE TABLE names (
  id   INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  UNIQUE (kind, name)
) STRICT;

-- What the routes made of an event, as JSON [[route, verdict, reason?], …]. Few differ, so each is kept once.
CREATE TABLE plans (
  id       INTEGER PRIMARY KEY,
  verdicts TEXT NOT NULL UNIQUE
) STRICT;

-- Who holds the file, the schema's story, cursors of slow work.
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Every event that proved itself, in the order of acceptance. seq grows and is never used again:
-- retention always leaves the greatest one.
CREATE TABLE events (
  seq             INTEGER PRIMARY KEY,
  account         INTEGER NOT NULL,
  id              ANY,              -- 16 bytes for a canonical UUID, else text; NULL when quarantined
  kind            INTEGER,          -- NULL when quarantined
  source          INTEGER NOT NULL,
  origin          INTEGER NOT NULL,
  received_at     INTEGER NOT NULL, -- unix ms
  created_at      INTEGER,          -- unix ms, the envelope's createdAt
  secret          INTEGER,          -- the secret that proved it
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
  body            BLOB NOT NULL     -- the bytes received
) STRICT;

-- The dedupe that everything rests on.
CREATE UNIQUE INDEX events_by_id ON events (account, id) WHERE id IS NOT NULL;
CREATE INDEX events_by_subject ON events (subject) WHERE subject IS NOT NULL;
CREATE INDEX events_parked ON events (parked_until) WHERE parked_until IS NOT NULL;
CREATE INDEX events_ignored ON events (received_at) WHERE disposition = 2;
CREATE INDEX events_quarantined ON events (received_at) WHERE disposition = 3;

-- Every message whose wamid was registered or seen.
CREATE TABLE messages (
  seq           INTEGER PRIMARY KEY,
  account       INTEGER NOT NULL,
  wamid         TEXT NOT NULL,
  service_id    TEXT,
  reference     TEXT,
  metadata      TEXT,    -- JSON object
  registered_at INTEGER, -- unix ms; NULL: only seen
  status        TEXT,
  error_code    TEXT,
  pending_at    INTEGER,
  sent_at       INTEGER,
  delivered_at  INTEGER,
  read_at       INTEGER,
  failed_at     INTEGER,
  received_at   INTEGER,
  updated_at    INTEGER NOT NULL,
  UNIQUE (account, wamid)
) STRICT;
CREATE INDEX messages_unregistered ON messages (seq) WHERE registered_at IS NULL;
CREATE INDEX messages_by_reference ON messages (reference) WHERE reference IS NOT NULL;

CREATE TABLE runs (
  seq           INTEGER PRIMARY KEY,
  account       INTEGER NOT NULL,
  run_id        TEXT NOT NULL,
  reference     TEXT,
  metadata      TEXT,
  registered_at INTEGER,
  status        TEXT,
  error         TEXT,
  started_at    INTEGER,
  completed_at  INTEGER,
  failed_at     INTEGER,
  updated_at    INTEGER NOT NULL,
  UNIQUE (account, run_id)
) STRICT;

-- One event owed to one route. The key itself is what makes it at most one.
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
  PRIMARY KEY (event, route)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (route, next_at, event) WHERE state = 0;
CREATE INDEX deliveries_open ON deliveries (subject, route, state, event) WHERE state <= 1 AND subject IS NOT NULL;
CREATE INDEX deliveries_dead ON deliveries (route, event) WHERE state = 3;

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
