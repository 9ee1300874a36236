#!lua flags=no-writes
-- Unplanned seqs after a given one. The list is sorted, so a binary search finds the first, however much workers have taken
-- from its head meanwhile. ARGV: base, after, limit.
local list = ARGV[1] .. 'unplanned'
local after = tonumber(ARGV[2])
local from, to = 0, redis.call('LLEN', list)
while from < to do
  local middle = math.floor((from + to) / 2)
  if tonumber(redis.call('LINDEX', list, middle)) > after then to = middle else from = middle + 1 end
end
return redis.call('LRANGE', list, from, from + tonumber(ARGV[3]) - 1)
