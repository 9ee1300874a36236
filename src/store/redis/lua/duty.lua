#!lua flags=allow-oom
-- Takes or renews a duty, or lets it go ('' for the time). KEYS: the duty. ARGV: holder, ms. Gives 1 when the holder has it.
-- In a full Redis too: making room is a duty.
local has = redis.call('GET', KEYS[1])
if has and has ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
