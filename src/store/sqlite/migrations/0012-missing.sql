-- Polls in a row that the service answered with 404 while it answered others: the second one makes the message missing.
ALTER TABLE asks ADD COLUMN misses INTEGER NOT NULL DEFAULT 0;
-- 1: polled no more, because the service does not know it (asks.next_at is NULL). Here, so that an event or registration
-- that shows the opposite finds it in the row that it reads anyway.
ALTER TABLE messages ADD COLUMN missing INTEGER;
UPDATE messages SET missing = 1 WHERE seq IN (SELECT message FROM asks WHERE next_at IS NULL);
