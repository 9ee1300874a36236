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

local low = below(tonumber(ARGV[2]) + 1)
local high = below(tonumber(ARGV[3]))
local first = math.max(low, high - tonumber(ARGV[4]))
if high <= first then return { first, '0', 0 } end
local seqs = redis.call('LRANGE', list, first, high - 1)
local found = { first, seqs[1], first - low }
if #ARGV == 4 then return found end

local rows = {}
for i, seq in ipairs(seqs) do rows[i] = base .. 'e:' .. seq end
rows = redis.call('MGET', unpack(rows))
for i, row in ipairs(rows) do
  -- After the version `["m:<account>:<wamid>",`, and accounts have no colon (event-row.ts, keys.ts).
  if row and string.sub(row, 11, 14) == '["m:' then
    local colon = string.find(row, ':', 15, true)
    for wamid = 5, colon and #ARGV or 0 do
      local text = ARGV[wamid]
      if string.sub(row, colon + 1, colon + #text) == text then
        local n = #found
        found[n + 1], found[n + 2], found[n + 3] = seqs[i], string.sub(row, 15, colon - 1), wamid - 4
      end
    end
  end
end
return found
