#!lua flags=no-writes
-- The time of the server that has the key: unix seconds, and microseconds beyond them.
return redis.call('TIME')
