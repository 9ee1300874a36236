-- Of a body released from quarantine: seq of the event that it became. Of an event that came so: seq of that body.
ALTER TABLE events ADD COLUMN release INTEGER;
