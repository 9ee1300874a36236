#!lua
-- Settles claimed polls; skips a claim that has expired. ARGV: base, then for each: account, wamid, until, and 'again', score,
-- asks, failures, asked at, misses, or 'over', '', '', '', '', ''.
local base = ARGV[1]
local call = redis.call
local step = 8796093022208

for n = 2, #ARGV, 9 do
  local account, wamid, until_, what = ARGV[n], ARGV[n + 1], ARGV[n + 2], ARGV[n + 3]
  local list, records = base .. 'polls:' .. account, base .. 'poll:' .. account
  local score = call('ZSCORE', list, wamid)
  local record = call('HGET', records, wamid)
  if score and record and tonumber(score) % step == tonumber(until_) then
    local since = string.match(record, '^(%S+)')
    if what == 'again' then
      call('ZADD', list, ARGV[n + 4], wamid)
      call('HSET', records, wamid, table.concat({ since, ARGV[n + 5], ARGV[n + 6], ARGV[n + 7], ARGV[n + 8] }, ' '))
    else
      call('ZREM', list, wamid)
      call('HDEL', records, wamid)
    end
  end
end
return ''
