#!lua flags=allow-oom
-- Takes, renews or releases a lease. KEYS: its key. ARGV: holder, ms ('': release). Returns 1 if the holder has it now.
-- Also when Redis is full: the purge, which makes room, needs its lease.
local has = redis.call('GET', KEYS[1])
if has and has ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
