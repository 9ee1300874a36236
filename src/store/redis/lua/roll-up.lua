#!lua flags=allow-oom
-- Rolls minutes of a series of the history up to hours, and deletes old hours. ARGV: base, series, '1' if the greatest value
-- counts instead of the sum, the hours before which to roll up and to delete, most hours. Returns the number of hours that
-- it handled.
local base, series, is_gauge, dropped, most = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[5], tonumber(ARGV[6])
local call = redis.call
local hours, minutes = base .. 'hours:' .. series, base .. 'minutes:' .. series

local old = call('ZRANGEBYSCORE', hours, '-inf', '(' .. dropped, 'LIMIT', 0, most)
for _, hour in ipairs(old) do
  call('DEL', base .. 'hh:' .. series .. ':' .. hour)
  call('ZREM', hours, hour)
end
local listed = call('ZRANGEBYSCORE', minutes, '-inf', '(' .. ARGV[4], 'LIMIT', 0, most)
for _, hour in ipairs(listed) do
  local to = base .. 'hh:' .. series .. ':' .. hour
  for minute = tonumber(hour) * 60, tonumber(hour) * 60 + 59 do
    local key = base .. 'hm:' .. series .. ':' .. string.format('%d', minute)
    local fields = call('HGETALL', key)
    for n = 1, #fields, 2 do
      local field, value = fields[n], fields[n + 1]
      if not is_gauge then
        call('HINCRBY', to, field, value)
      elseif tonumber(value) > tonumber(call('HGET', to, field) or '-1') then
        call('HSET', to, field, value)
      end
    end
    call('DEL', key)
  end
  call('ZREM', minutes, hour)
  call('ZADD', hours, hour, hour)
end
-- What was deleted cannot be compared with the rows (audit-history.ts).
if #old > 0 and tonumber(call('GET', base .. 'forgotten') or '0') < tonumber(dropped) then call('SET', base .. 'forgotten', dropped) end
return #old + #listed
