#!lua flags=no-writes
-- Searches the newest unplanned events between two seqs (exclusive) for some messages. ARGV: base, after, before, limit; then
-- the texts that follow the account in rows of these messages. Returns the index and seq of the oldest event searched, the
-- number of older ones between the two seqs, and for each match its seq, account and the index of its text. The list is
-- sorted, so a binary search finds a seq, however much workers have taken from its head meanwhile.
local base = ARGV[1]
local list = base .. 'unplanned'

-- The number of seqs in the list below a seq.
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

-- After its version a row begins with `["m:<account>:<wamid>",` (event-rows.ts, keys.ts). Accounts have at most 64
-- characters and no colon. Reading more of the row would double the cost.
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
