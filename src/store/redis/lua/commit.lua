#!lua
-- Applies a batch of steps, each whole or not at all. ARGV is one flat list, read from the front: text needs no escaping,
-- and bytes stay bytes. The first line makes Redis refuse the whole script when it is full or a replica, before
-- anything is written. What stands before this text: events.lua, gathered.lua, operations.lua, deliveries.lua, retention.lua.
local place = 2
local function take()
  local value = ARGV[place]
  place = place + 1
  return value
end

local function operate()
  local name = take()
  local arguments = {}
  for n = 1, tonumber(take()) do arguments[n] = take() end
  return name, arguments
end

local function skip_operations()
  for _ = 1, tonumber(take()) do
    place = place + 1
    place = place + 1 + tonumber(ARGV[place])
  end
end

-- Rows are looked at before anything is written: another version means that somebody was faster.
local function transact()
  local stale, current = nil, false
  for n = 1, tonumber(take()) do
    local key, version = take(), take()
    if not stale then
      local row = get(key)
      if (row and string.sub(row, 1, 10) or '') ~= version then
        stale, current = n, row
      end
    end
  end
  if stale then
    skip_operations()
    return { 0, stale, current or '' }
  end
  local results = { 1 }
  for n = 1, tonumber(take()) do
    local name, arguments = operate()
    results[n + 1] = operations[name](arguments) or ''
  end
  return results
end

local function prove(key, is_new)
  local sum = proofs[key]
  if is_new then sum.events = sum.events + 1 else sum.duplicates = sum.duplicates + 1 end
end

-- A small body stands in the row itself, after a line's end: JSON has none. `apart`: one that does not.
local function store_event(row, apart)
  local seq = format('%d', next_seq())
  put(base .. 'e:' .. seq, row)
  if apart ~= '' then put(base .. 'b:' .. seq, apart) end
  return seq
end

-- What events of a batch have in common, by its number: what is done with them, the proof, the routes that get a delivery,
-- and whether more than the usual is told of them.
local forms = {}

-- Seqs at the head of `unplanned`, as far as they were read; and how many there were before this batch.
local heads, waiting = {}, nil
local function is_next(seq)
  local place_of = planned + 1
  if not heads[place_of] then
    for _, head in ipairs(call('LRANGE', base .. 'unplanned', #heads, #heads + 31)) do heads[#heads + 1] = head end
  end
  return heads[place_of] == seq
end

local function count_unplanned()
  if not waiting then waiting = call('LLEN', base .. 'unplanned') end
  return waiting - planned
end

-- What few events have: disposition, parked until, account of a learned one, received at, body apart.
local function take_rare()
  return { disposition = take(), parked_until = take(), learned = take(), received_at = take(), apart = take() }
end

-- What tracking and the routes made of an event: its subject's row, its place in lists, its deliveries, whose arguments
-- begin at `first`. Gives a digit for each delivery, '1' for held, when any is; else nil.
local function plan_event(seq, form, subject, version, next_row, first, rare)
  if subject ~= '' then
    if next_row ~= '' then put(base .. subject, next_row) end
    if version == '' then add(seen, string.sub(subject, 1, 1), next_number(), subject) end
    call('ZADD', base .. 'es:' .. subject, seq, seq)
  end
  if rare then
    if rare.disposition == '2' then call('ZADD', base .. 'ignored', rare.received_at, seq) end
    if rare.parked_until ~= '' then
      call('ZADD', base .. 'parked', rare.parked_until, padded(seq))
      if subject ~= '' then call('ZADD', base .. 'pk:' .. subject, seq, seq) end
    end
    if rare.learned ~= '' then call('ZADD', base .. 'learned:' .. rare.learned, seq, seq) end
  end
  local states, is_any_held = '', false
  for n, route in ipairs(form.routes) do
    local state = plan_delivery(seq, route, ARGV[first + 2 * n - 2], ARGV[first + 2 * n - 1], '0')
    is_any_held = is_any_held or state ~= '0'
    states = states .. state
  end
  if rare then
    for _ = 1, tonumber(take()) do
      local name, arguments = operate()
      operations[name](arguments, seq)
    end
  end
  return is_any_held and states or nil
end

-- The subject's row as it is, when it is not the one that was tracked by.
local function changed_row(subject, version)
  if subject == '' then return nil end
  local current = get(base .. subject)
  if (current and string.sub(current, 1, 10) or '') ~= version then return current or '' end
  return nil
end

-- Accept + track + plan. An event whose subject somebody changed meanwhile is given back, and so is one about a message
-- while others wait to be planned: it must not overtake them. Each text that is given or made costs Redis as much as a
-- small command, so what few events have comes only where the form says so. Gives the seq, and after a blank, when any
-- are held, a digit for each delivery: 1 for held.
local function accept(form)
  local id_key, row = base .. ARGV[place], ARGV[place + 1]
  local subject, version, next_row, first = ARGV[place + 2], ARGV[place + 3], ARGV[place + 4], place + 5
  place = first + 2 * #form.routes
  local rare = form.is_rare and take_rare()
  local apart = rare and rare.apart or ''
  local same = get(id_key)
  if same then
    if rare then skip_operations() end
    if form.proof ~= '' then prove(form.proof, false) end
    local stored = get(base .. 'e:' .. same)
    stored = stored and body_in(stored) or get(base .. 'b:' .. same)
    return { 2, same, note_duplicate(same, stored, apart ~= '' and apart or body_in(row)) }
  end
  local current = changed_row(subject, version)
  if current or (string.sub(subject, 1, 1) == 'm' and count_unplanned() > 0) then
    if rare then skip_operations() end
    return current and { 0, 0, current } or { 3 }
  end
  local seq = store_event(row, apart)
  put(id_key, seq)
  if form.proof ~= '' then prove(form.proof, true) end
  local states = plan_event(seq, form, subject, version, next_row, first, rare)
  return states and seq .. ' ' .. states or seq
end

-- Track + plan of the event that is next in turn: seq, row, then as `accept`. A body that stands in the row comes with it,
-- as it was: to take it over from the stored row costs more. Where it does not come it stays. Gives `{ 3 }` when another is
-- next.
local function plan(form)
  local seq, row = ARGV[place], ARGV[place + 1]
  local subject, version, next_row, first = ARGV[place + 2], ARGV[place + 3], ARGV[place + 4], place + 5
  place = first + 2 * #form.routes
  local rare = form.is_rare and take_rare()
  local is_turn = is_next(seq)
  local current = is_turn and changed_row(subject, version)
  if not is_turn or current then
    if rare then skip_operations() end
    return current and { 0, 0, current } or { 3 }
  end
  local key = base .. 'e:' .. seq
  if not string.find(row, '\n', 11, true) then row = row .. body_part(get(key)) end
  put(key, row)
  local states = plan_event(seq, form, subject, version, next_row, first, rare)
  planned = planned + 1
  return states and seq .. ' ' .. states or seq
end

local function quarantine()
  local row, apart, received_at, proof = take(), take(), take(), take()
  local seq = store_event(row, apart)
  call('ZADD', base .. 'quarantined', received_at, seq)
  if proof ~= '' then prove(proof, true) end
  return { 1, seq }
end

local events = { A = accept, P = plan }

-- What the steps have in common: accounts; verdicts by their digest; proofs with the first and last time of the batch;
-- forms; and strings that will be looked at.
for _ = 1, tonumber(take()) do accounts[take()] = true end
for _ = 1, tonumber(take()) do
  local digest = take()
  plans[digest] = take()
end
for _ = 1, tonumber(take()) do
  local key, first, last = take(), take(), take()
  proofs[key] = { events = 0, duplicates = 0, first = tonumber(first), last = tonumber(last) }
end
for n = 1, tonumber(take()) do
  local run, proof, rare, routes_of = events[take()], take(), take(), {}
  for route = 1, tonumber(take()) do routes_of[route] = take() end
  forms[tostring(n)] = { run = run, proof = proof, is_rare = rare == '1', routes = routes_of }
end
local looked = {}
for n = 1, tonumber(take()) do looked[n] = base .. take() end
for from = 1, #looked, most_words do
  local values = call('MGET', unpack(looked, from, math.min(from + most_words - 1, #looked)))
  for n = 1, #values do known[looked[from + n - 1]] = values[n] end
end

-- A delivery was delivered, by far the most frequent step of a worker: seq, route, holder, at, attempt, its number.
local function delivered()
  local seq, route, holder, at, attempt, number = take(), take(), take(), take(), take(), take()
  return { 1, operations.settle({ seq, route, holder, '2', '', '', at, attempt, '', number, '', '' }) }
end

-- Any other kind is the number of an event's form.
local kinds = { T = transact, Q = quarantine, D = delivered }
local results = {}
-- A fault in one step is a fault of this script; what was given before it must be written all the same, or a seq would be given twice.
local is_whole, fault = pcall(function()
  for n = 1, tonumber(take()) do
    local kind = take()
    local form = forms[kind]
    if form then results[n] = form.run(form) else results[n] = kinds[kind]() end
  end
end)
write_gathered()
if not is_whole then return redis.error_reply(type(fault) == 'table' and fault.err or tostring(fault)) end
return results
