-- What a registration may tell besides: the service's conversation, and when the message was sent.
ALTER TABLE messages ADD COLUMN conversation_id TEXT;
ALTER TABLE messages ADD COLUMN told_sent_at INTEGER; -- unix ms, the earliest told; NULL: nobody said (sent_at is when the status came)
