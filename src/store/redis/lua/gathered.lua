-- Collects what the steps of a batch write. Prepended to commit.lua (script.ts).

-- Additions to the same key are collected and written once at the end, because each call is expensive.
local routes, accounts, plans, usages, due, seen = {}, {}, {}, {}, {}, {}
-- By route: ended claims, and deliveries that the batch leaves held (true) or not (false).
local ended, held = {}, {}
-- Planned events, to remove from `unplanned`.
local planned = 0
local last_seq, first_seq
local last_number, first_number

-- Strings are written together, too, and `get` returns pending ones (false: removed). `known`: strings read before the first
-- step, valid until a step runs a command of its own (false: missing).
local pending, written, removed, known = {}, {}, {}, {}

local function put(key, value)
  pending[key] = value
  written[#written + 1] = key
  written[#written + 1] = value
end

local function remove(key)
  pending[key] = false
  removed[#removed + 1] = key
end

local function get(key)
  local value = pending[key]
  if value == nil then value = known[key] end
  if value == nil then return call('GET', key) end
  return value
end

-- Arguments per command: Lua's stack has room for some thousands. Even, because most lists are of pairs.
local most_words = 4000

-- A command over a list of any length, with a key before it.
local function call_over(command, key, list)
  for from = 1, #list, most_words do call(command, key, unpack(list, from, math.min(from + most_words - 1, #list))) end
end

local function flush()
  for from = 1, #written, most_words do call('MSET', unpack(written, from, math.min(from + most_words - 1, #written))) end
  local gone = {}
  for _, key in ipairs(removed) do
    if pending[key] == false then gone[#gone + 1] = key end
  end
  for from = 1, #gone, most_words do call('DEL', unpack(gone, from, math.min(from + most_words - 1, #gone))) end
  pending, written, removed, known = {}, {}, {}, {}
end

local function next_seq()
  if not last_seq then
    first_seq = tonumber(call('GET', base .. 'seq') or '0')
    last_seq = first_seq
  end
  last_seq = last_seq + 1
  return last_seq
end

local function next_number()
  if not last_number then
    first_number = tonumber(call('GET', base .. 'numbers') or '0')
    last_number = first_number
  end
  last_number = last_number + 1
  return format('%d', last_number)
end

-- A score and its member.
local function add(list, key, score, member)
  local values = list[key]
  if not values then
    values = {}
    list[key] = values
  end
  local n = #values
  values[n + 1] = score
  values[n + 2] = member
end

local function padded(seq)
  return format('%015d', tonumber(seq))
end

local function hold(route, seq, is_held)
  local changes = held[route]
  if not changes then
    changes = {}
    held[route] = changes
  end
  changes[seq] = is_held
end

local function write_gathered()
  flush()
  if last_seq and last_seq > first_seq then
    call('SET', base .. 'seq', format('%d', last_seq))
    mark_live(first_seq + 1, last_seq)
  end
  if last_number and last_number > first_number then call('SET', base .. 'numbers', format('%d', last_number)) end
  if planned > 0 then call('LPOP', base .. 'unplanned', planned) end
  for route, members in pairs(ended) do call_over('ZREM', base .. 'leased:' .. route, members) end
  for route, changes in pairs(held) do
    local added, gone = {}, {}
    for seq, is_held in pairs(changes) do
      if is_held then
        added[#added + 1] = seq
        added[#added + 1] = seq
      else
        gone[#gone + 1] = seq
      end
    end
    call_over('ZADD', base .. 'held:' .. route, added)
    call_over('ZREM', base .. 'held:' .. route, gone)
  end
  for route, pairs_ in pairs(due) do call_over('ZADD', base .. 'due:' .. route, pairs_) end
  for kind, pairs_ in pairs(seen) do call_over('ZADD', base .. 'seen:' .. kind, pairs_) end
  for digest, verdicts in pairs(plans) do call('HSETNX', base .. 'plans', digest, verdicts) end
  for route in pairs(routes) do call('SADD', base .. 'routes', route) end
  for account in pairs(accounts) do call('SADD', base .. 'accounts', account) end
  write_usage(usages)
  write_counts()
end
