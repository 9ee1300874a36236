#!lua flags=no-writes
-- Counts of a series of the history. ARGV: base, series, first and last hour, most fields. Returns the hour with which the
-- next read begins (-1: none), then for each key 'h' or 'm', its hour or minute, and its fields with their numbers. An hour is
-- read whole, because its minutes may be rolled up at any time.
local base, series, last, most = ARGV[1], ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local call = redis.call
local most_hours = 200
local found, fields = { -1 }, 0

local function read(kind, key, at)
  local has = call('HGETALL', base .. key .. series .. ':' .. string.format('%d', at))
  if #has == 0 then return end
  fields = fields + #has / 2
  found[#found + 1] = { kind, at, has }
end

local order, has = {}, { hours = {}, minutes = {} }
for _, list in ipairs({ 'hours', 'minutes' }) do
  local some = call('ZRANGEBYSCORE', base .. list .. ':' .. series, ARGV[3], last, 'LIMIT', 0, most_hours)
  -- A list that goes on hides whatever comes after this hour.
  if #some == most_hours then last = math.min(last, tonumber(some[#some])) end
  for _, hour in ipairs(some) do
    hour = tonumber(hour)
    if not has.hours[hour] then order[#order + 1] = hour end
    has[list][hour] = true
  end
end
table.sort(order)

local next_hour
for _, hour in ipairs(order) do
  if hour > last or fields >= most then
    next_hour = hour
    break
  end
  if has.hours[hour] then read('h', 'hh:', hour) end
  if has.minutes[hour] then
    for minute = hour * 60, hour * 60 + 59 do read('m', 'hm:', minute) end
  end
end
found[1] = next_hour or (last < tonumber(ARGV[4]) and last + 1 or -1)
return found
