#!lua flags=no-writes
-- Of the events that wait to be planned, some about messages: the newest of those between two seqs (exclusive). ARGV:
-- base, after, before, most of them; then texts with which the rows of those meant go on after the account, each in place
-- of a wamid. Gives the place in the list (from 0) and the seq of the oldest that was looked at, how many older ones are
-- between the two, and of each one meant its seq, account and place of the wamid. The list is in order, so a seq is found
-- by halving, however much workers have taken from its head meanwhile.
local base = ARGV[1]
local list = base .. 'unplanned'

-- How many of the list are smaller than a seq.
local function below(seq)
  local from, to = 0, redis.call('LLEN', list)
  while from < to do
    local middle = math.floor((from + to) / 2)
    if tonumber(redis.call('LINDEX', list, middle)) >= seq then to = middle else from = middle + 1 end
  end
  return from
end

local after = tonumber(ARGV[2])
local low = after > 0 and below(after + 1) or 0
local high = below(tonumber(ARGV[3]))
local first = math.max(low, high - tonumber(ARGV[4]))
if high <= first then return { first, '0', 0 } end
local seqs = redis.call('LRANGE', list, first, high - 1)
local found = { first, seqs[1], first - low }
if #ARGV == 4 then return found end

-- A row begins, after its version, with `["m:<account>:<wamid>",` (event-rows.ts, keys.ts). Accounts have at most 64
-- characters, and none is a colon. The rest is left alone: it would cost Redis as much again.
local last = 10 + 4 + 64
for i = 5, #ARGV do last = math.max(last, 10 + 4 + 64 + #ARGV[i]) end
for _, seq in ipairs(seqs) do
  local row = redis.call('GETRANGE', base .. 'e:' .. seq, 10, last)
  local colon = string.sub(row, 1, 4) == '["m:' and string.find(row, ':', 5, true)
  for i = 5, colon and #ARGV or 0 do
    if string.sub(row, colon + 1, colon + #ARGV[i]) == ARGV[i] then
      local n = #found
      found[n + 1], found[n + 2], found[n + 3] = seq, string.sub(row, 5, colon - 1), i - 4
    end
  end
end
return found
