-- How often each secret proved what came in, and when: which of two is safe to drop. Counted in the transaction that
-- stores the event, and not lowered by retention.
CREATE TABLE proofs (
  source     INTEGER NOT NULL,
  secret     INTEGER NOT NULL,
  events     INTEGER NOT NULL, -- quarantined ones included
  duplicates INTEGER NOT NULL, -- known ids that came again
  first_at   INTEGER NOT NULL, -- unix ms
  last_at    INTEGER NOT NULL,
  PRIMARY KEY (source, secret)
) STRICT, WITHOUT ROWID;

INSERT INTO proofs (source, secret, events, duplicates, first_at, last_at)
  SELECT source, secret, count(*), sum(duplicates), min(received_at), max(received_at)
  FROM events WHERE secret IS NOT NULL GROUP BY source, secret;

-- Nothing asks for it, and each message of a campaign paid for it.
DROP INDEX messages_unregistered;
