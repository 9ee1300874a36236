#!lua
-- Continues an account's hydration pass, or begins one over all waiting events. ARGV: base, account, now (unix ms), version
-- and name of a new pass. Returns the pass's row, its first event, the number of events, and when the first and last came.
local base, account, now = ARGV[1], ARGV[2], ARGV[3]
local call = redis.call
local covered, waiting, open = base .. 'hc:' .. account, base .. 'hw:' .. account, base .. 'pass:' .. account

local function merge(from, to)
  if call('EXISTS', to) == 0 then
    if call('EXISTS', from) == 1 then call('RENAME', from, to) end
  else
    call('ZUNIONSTORE', to, 2, to, from, 'AGGREGATE', 'MIN')
    call('DEL', from)
  end
end

local row = call('GET', open)
if row and call('EXISTS', covered) == 0 then
  -- A crash left this pass open after all its events were settled.
  local left = cjson.decode(string.sub(row, 11))
  if left[4] > 0 then call('ZADD', base .. 'passes:' .. account, now, left[1] .. ':' .. string.format('%.0f', left[4])) end
  call('DEL', open)
  row = false
end
if not row then
  merge(waiting, covered)
  merge(base .. 'ht:' .. account, base .. 'ct:' .. account)
  if call('EXISTS', covered) == 0 then return {} end
  row = ARGV[4] .. string.format('["%s",%s,%s,0]', ARGV[5], call('GET', base .. 'seq') or '0', now)
  call('SET', open, row)
end
local first, last = call('ZRANGE', covered, 0, 0, 'WITHSCORES'), call('ZRANGE', covered, -1, -1, 'WITHSCORES')
return { row, first[1], call('ZCARD', covered), first[2], last[2] }
