#!lua
-- Renews or hands back claims. ARGV: base, route, holder, lease in ms ('': hand back), seqs…
-- Returns the seqs that this holder no longer has.
local base, route, holder, lease = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call
local time = call('TIME')
local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local lost = {}
for n = 5, #ARGV do
  local seq = ARGV[n]
  local member = string.format('%015d', tonumber(seq))
  local key = base .. 'd:' .. seq .. ':' .. route
  local now = call('HMGET', key, 'c', 'n', 's')
  if now[1] ~= holder or now[3] ~= '0' then
    lost[#lost + 1] = seq
  elseif lease ~= '' then
    call('ZADD', base .. 'leased:' .. route, clock + tonumber(lease), member)
  else
    call('HDEL', key, 'c')
    call('ZREM', base .. 'leased:' .. route, member)
    if now[2] then call('ZADD', base .. 'due:' .. route, now[2], member) end
  end
end
return lost
