#!lua
-- Claims messages that are due for a poll: lower ranks first, and within a rank the longest due. ARGV: base, account, due by,
-- due by for messages never polled, limit, until (unix ms). Returns wamid, due at, rank, record and row of each.
local base, account = ARGV[1], ARGV[2]
local limit, until_ = tonumber(ARGV[5]), tonumber(ARGV[6])
local call = redis.call
local list, records = base .. 'polls:' .. account, base .. 'poll:' .. account
-- See rows.ts.
local step, last_rank = 8796093022208, 31

local found = {}
for rank = 0, last_rank do
  if #found >= limit then break end
  local from = rank * step
  local to = from + tonumber(rank == 0 and ARGV[4] or ARGV[3])
  local due = call('ZRANGEBYSCORE', list, string.format('%.0f', from), string.format('%.0f', to), 'WITHSCORES', 'LIMIT', 0, limit - #found)
  for n = 1, #due, 2 do
    local wamid = due[n]
    local record, row = call('HGET', records, wamid), call('GET', base .. 'm:' .. account .. ':' .. wamid)
    if record and row then
      call('ZADD', list, string.format('%.0f', from + until_), wamid)
      found[#found + 1] = { wamid, string.format('%.0f', tonumber(due[n + 1]) - from), rank, record, row }
    else
      -- Deleted by the purge.
      call('ZREM', list, wamid)
      call('HDEL', records, wamid)
    end
  end
end
return found
