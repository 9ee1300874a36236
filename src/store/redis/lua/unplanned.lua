#!lua flags=no-writes
-- Seqs that wait to be planned, after a given one: they stand in their order, so the first is found by halving, wherever
-- in the list it is and however much workers have taken from its head meanwhile. ARGV: base, after, most of them.
local list = ARGV[1] .. 'unplanned'
local after = tonumber(ARGV[2])
local from, to = 0, redis.call('LLEN', list)
while from < to do
  local middle = math.floor((from + to) / 2)
  if tonumber(redis.call('LINDEX', list, middle)) > after then to = middle else from = middle + 1 end
end
return redis.call('LRANGE', list, from, from + tonumber(ARGV[3]) - 1)
