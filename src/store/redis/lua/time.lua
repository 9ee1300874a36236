#!lua flags=no-writes
-- The time as the server has it that keeps the key: unix seconds, and microseconds beyond them.
return redis.call('TIME')
