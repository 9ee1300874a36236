-- What may be gone because retention took it (../swept.ts): of a file from before, everything but the newest event.
INSERT INTO meta (key, value) SELECT 'swept events', CAST(received_at AS TEXT) FROM events WHERE seq = (SELECT max(seq) FROM events);
INSERT INTO meta (key, value) SELECT 'swept deliveries', CAST(received_at AS TEXT) FROM events WHERE seq = (SELECT max(seq) FROM events);
