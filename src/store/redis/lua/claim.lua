#!lua
-- Claims due deliveries of a route with all that an attempt needs. Leases run on the clock of Redis.
-- ARGV: base, route, now, limit, most bytes, lease in ms, holder.
local base, route, now = ARGV[1], ARGV[2], ARGV[3]
local limit, most, holder = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7]
local call = redis.call
local time = call('TIME')
local clock = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local until_ = clock + tonumber(ARGV[6])
local due, leased = base .. 'due:' .. route, base .. 'leased:' .. route

-- Leases do not expire while they cannot be renewed. After three seconds without a claim Redis was unavailable, and holders
-- get five seconds to renew and settle before other workers take their deliveries.
local claimed = tonumber(call('GET', base .. 'claimed') or '')
if not claimed or clock - claimed > 1000 or claimed - clock > 5000 then
  claimed = claimed and clock - claimed > 3000 and clock + 5000 or clock
  call('SET', base .. 'claimed', string.format('%.0f', claimed))
end

local stopped = call('HGET', base .. 'stopped', route) or ''
-- Expired claims become due again at their old time, so that they go out before later deliveries.
local over = claimed <= clock and call('ZRANGEBYSCORE', leased, '-inf', clock, 'LIMIT', 0, 1000) or {}
for _, member in ipairs(over) do
  local key = base .. 'd:' .. string.format('%.0f', tonumber(member)) .. ':' .. route
  call('ZREM', leased, member)
  local at = call('HGET', key, 'n')
  if at then call('ZADD', due, at, member) end
  call('HDEL', key, 'c')
end

-- The row's first value is the subject's name, or null (event-rows.ts). The rest is not decoded: a truncated status may end
-- in half a surrogate pair, which cjson rejects, and that would block the route.
local function about_key(event, seq)
  local name = string.match(event, '^%["([^"\\]*)"', 11)
  if name then return base .. name end
  if string.sub(event, 11, 15) == '[null' then return base .. 'h:' .. seq end
  -- A name with a backslash (rare) ends at the first unescaped quote.
  local at = string.find(event, '["\\]', 13)
  while string.sub(event, at, at) == '\\' do at = string.find(event, '["\\]', at + 2) end
  return base .. cjson.decode('[' .. string.sub(event, 12, at) .. ']')[1]
end

local found, bytes = {}, 0
local members = stopped == '' and limit > 0 and call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, limit) or {}
if #members > 0 then
  local keys, taken, leases, abouts = {}, {}, {}, {}
  for n, member in ipairs(members) do keys[n] = base .. 'e:' .. string.format('%.0f', tonumber(member)) end
  local events = call('MGET', unpack(keys))
  for n, member in ipairs(members) do
    local event = events[n]
    if not event then
      taken[#taken + 1] = member
    else
      local seq = string.format('%.0f', tonumber(member))
      local line = string.find(event, '\n', 11, true)
      local body = line and '' or call('GET', base .. 'b:' .. seq) or ''
      local size = #event + #body
      if #found > 0 and bytes + size > most then break end
      bytes = bytes + size
      local key = base .. 'd:' .. seq .. ':' .. route
      local counts = call('HMGET', key, 'a', 'p', 'rp')
      call('HSET', key, 'c', holder)
      taken[#taken + 1] = member
      leases[#leases + 1] = until_
      leases[#leases + 1] = member
      abouts[#abouts + 1] = about_key(event, seq)
      found[#found + 1] = { seq, counts[1] or '0', counts[2] or '0', counts[3] or '0', event, body }
    end
  end
  if #taken > 0 then call('ZREM', due, unpack(taken)) end
  if #found > 0 then
    call('ZADD', leased, unpack(leases))
    for n, about in ipairs(call('MGET', unpack(abouts))) do found[n][7] = about or '' end
  end
end
-- The next delivery; it may be due already if it did not fit.
local first = call('ZRANGE', due, 0, 0, 'WITHSCORES')
return { stopped, first[2] or '', found }
