#!lua
-- Accepts a batch of events without planning them. ARGV: base, number of events, an id key and a row for each; then what
-- they share: accounts; secret usage, each with its number of consecutive events, their first and last time, and where the
-- history counts them (end of the key, field); separate bodies, each with the index of its event; for events that the relay
-- made, index, account and subject; and lists by seq, each with the index of its event. Returns the seq
-- before the first, 1 if `unplanned` was empty, and for each duplicate its index, seq, and 1 if its body differs.
local n = tonumber(ARGV[2])
local place = 3 + 2 * n
local function take()
  local value = ARGV[place]
  place = place + 1
  return value
end

local accounts = {}
for i = 1, tonumber(take()) do accounts[i] = take() end
local usages, usage_of = {}, {}
local groups, group_of = {}, {}
for g = 1, tonumber(take()) do
  local name, size, first, last = take(), tonumber(take()), tonumber(take()), tonumber(take())
  local sum = usages[name] or { events = 0, duplicates = 0, first = first, last = last }
  sum.first, sum.last = math.min(sum.first, first), math.max(sum.last, last)
  if name ~= '' then usages[name] = sum end
  groups[g] = { tail = take(), field = take(), events = 0 }
  for _ = 1, size do
    usage_of[#usage_of + 1] = sum
    group_of[#group_of + 1] = groups[g]
  end
end
local separate = {}
for _ = 1, tonumber(take()) do
  local index = tonumber(take())
  separate[index] = take()
end

local made = {}
for _ = 1, tonumber(take()) do
  local index = tonumber(take())
  made[index] = { account = take(), subject = take() }
end

local lists = {}
for _ = 1, tonumber(take()) do
  local index = tonumber(take())
  lists[index] = take()
end

local ids = {}
for i = 1, n do ids[i] = base .. ARGV[1 + 2 * i] end
local known = call('MGET', unpack(ids))
local before = tonumber(call('GET', base .. 'seq') or '0')
local seq = before
local seqs, duplicates, written = {}, {}, {}
for i = 1, n do
  local id, sum = ids[i], usage_of[i]
  local same = known[i] or seqs[id]
  if same then
    sum.duplicates = sum.duplicates + 1
    duplicates[#duplicates + 1] = i
    duplicates[#duplicates + 1] = same
  else
    seq = seq + 1
    local text = format('%d', seq)
    seqs[id] = text
    seqs[#seqs + 1] = text
    local w = #written
    written[w + 1], written[w + 2], written[w + 3], written[w + 4] = id, text, base .. 'e:' .. text, ARGV[2 + 2 * i]
    if separate[i] then
      written[w + 5], written[w + 6] = base .. 'b:' .. text, separate[i]
    end
    if made[i] then made[i].seq = text end
    if lists[i] then call('ZADD', base .. lists[i], text, text) end
    sum.events = sum.events + 1
    group_of[i].events = group_of[i].events + 1
  end
end

local is_first = 0
if seq > before then
  call('MSET', unpack(written))
  call('SET', base .. 'seq', format('%d', seq))
  mark_live(before + 1, seq)
  if call('RPUSH', base .. 'unplanned', unpack(seqs)) == #seqs then is_first = 1 end
end
local results = { before, is_first }
for d = 1, #duplicates, 2 do
  local i, same = duplicates[d], duplicates[d + 1]
  local stored = call('GET', base .. 'e:' .. same)
  stored = stored and body_in(stored) or call('GET', base .. 'b:' .. same)
  local r = #results
  results[r + 1], results[r + 2], results[r + 3] = i, same, note_duplicate(same, stored, separate[i] or body_in(ARGV[2 + 2 * i]))
end
for _, one in pairs(made) do
  if one.seq then
    call('ZADD', base .. 'made:' .. one.account, one.seq, one.seq)
    if one.subject ~= '' then call('ZADD', base .. 'es:' .. one.subject, one.seq, one.seq) end
  end
end
for _, account in ipairs(accounts) do call('SADD', base .. 'accounts', account) end
write_usage(usages)
for _, group in ipairs(groups) do count(group.tail, group.field, group.events) end
write_counts()
return results
