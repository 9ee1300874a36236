#!lua
-- Applies a batch of steps, each whole or not at all. ARGV is one flat list, read from the front: text needs no escaping,
-- and bytes stay bytes. The first line makes Redis refuse the whole script when it is full or a replica, before anything is
-- written. Prepended: events.lua, gathered.lua, operations.lua, deliveries.lua, purge.lua.
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

-- Compares the versions of all rows before writing: a different version means that another process was faster.
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

local function count_usage(key, is_new)
  local sum = usages[key]
  if is_new then sum.events = sum.events + 1 else sum.duplicates = sum.duplicates + 1 end
end

-- A small body is in the row, after a newline, which JSON does not contain. `separate`: a body with a key of its own.
local function store_event(row, separate)
  local seq = format('%d', next_seq())
  put(base .. 'e:' .. seq, row)
  if separate ~= '' then put(base .. 'b:' .. seq, separate) end
  return seq
end

-- What steps of a batch share, by number: what to do with them, the secret usage, the routes that get a delivery, whether
-- they have the arguments of rare cases, what each changes in the history, and whether each brings a sample of its own.
local forms = {}

-- `sample`: one more change, of a histogram: the end of a key, a blank and a field.
local function count_step(form, sample)
  local changes = form.counts
  for n = 1, #changes, 3 do count(changes[n], changes[n + 1], tonumber(changes[n + 2])) end
  if sample then
    local blank = string.find(sample, ' ', 1, true)
    count(string.sub(sample, 1, blank - 1), string.sub(sample, blank + 1), 1)
  end
end

-- Seqs read from the head of `unplanned`, and the length of that list before this batch.
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

-- Rare arguments: disposition, parked until, account of an event that the relay made, received at, separate body.
local function take_rare()
  return { disposition = take(), parked_until = take(), made = take(), received_at = take(), separate = take() }
end

-- A step has the version of its subject's row. Of a new subject it has the lists of its number instead, after blanks.
local function is_new(version)
  return version == '' or string.sub(version, 1, 1) == ' '
end

-- Writes what tracking and routing made of an event: its subject's row, its index entries, and its deliveries, whose
-- arguments begin at `first`. Returns a digit per delivery ('1': held), or nil when none is held.
local function plan_event(seq, form, subject, version, next_row, first, rare)
  if subject ~= '' then
    if next_row ~= '' then put(base .. subject, next_row) end
    if is_new(version) then
      local number = next_number()
      add(seen, string.sub(subject, 1, 1), number, subject)
      for list in string.gmatch(version, '%S+') do call('ZADD', base .. list, number, number) end
    end
    call('ZADD', base .. 'es:' .. subject, seq, seq)
  end
  if rare then
    if rare.disposition == '2' then call('ZADD', base .. 'ignored', rare.received_at, seq) end
    if rare.parked_until ~= '' then
      call('ZADD', base .. 'parked', rare.parked_until, padded(seq))
      if subject ~= '' then call('ZADD', base .. 'pk:' .. subject, seq, seq) end
    end
    if rare.made ~= '' then call('ZADD', base .. 'made:' .. rare.made, seq, seq) end
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

-- The subject's current row if it differs from the one that tracking used.
local function changed_row(subject, version)
  if subject == '' then return nil end
  local current = get(base .. subject)
  if is_new(version) then return current or nil end
  if (current and string.sub(current, 1, 10) or '') ~= version then return current or '' end
  return nil
end

-- Accepts, tracks and plans an event. Returns `{ 0, 0, row }` when its subject has changed meanwhile, and `{ 3 }` for an
-- event about a message while others are unplanned, because it must not overtake them. Each text costs Redis as much as a
-- small command, so rare arguments are sent only if the form says so. Returns the seq, and when any delivery is held a blank
-- and a digit per delivery ('1': held).
local function accept(form)
  local id_key, row = base .. ARGV[place], ARGV[place + 1]
  local subject, version, next_row, first = ARGV[place + 2], ARGV[place + 3], ARGV[place + 4], place + 5
  place = first + 2 * #form.routes
  local sample = form.is_timed and take()
  local rare = form.is_rare and take_rare()
  local separate = rare and rare.separate or ''
  local same = get(id_key)
  if same then
    if rare then skip_operations() end
    if form.usage ~= '' then count_usage(form.usage, false) end
    local stored = get(base .. 'e:' .. same)
    stored = stored and body_in(stored) or get(base .. 'b:' .. same)
    return { 2, same, note_duplicate(same, stored, separate ~= '' and separate or body_in(row)) }
  end
  local current = changed_row(subject, version)
  if current or (string.sub(subject, 1, 1) == 'm' and count_unplanned() > 0) then
    if rare then skip_operations() end
    return current and { 0, 0, current } or { 3 }
  end
  local seq = store_event(row, separate)
  put(id_key, seq)
  if form.usage ~= '' then count_usage(form.usage, true) end
  count_step(form, sample)
  local states = plan_event(seq, form, subject, version, next_row, first, rare)
  return states and seq .. ' ' .. states or seq
end

-- Tracks and plans the next unplanned event: seq, row, then as `accept`. A body in the row is sent again, because copying it
-- from the stored row costs more; a body that is not sent stays. Returns `{ 3 }` when another event is next.
local function plan(form)
  local seq, row = ARGV[place], ARGV[place + 1]
  local subject, version, next_row, first = ARGV[place + 2], ARGV[place + 3], ARGV[place + 4], place + 5
  place = first + 2 * #form.routes
  local sample = form.is_timed and take()
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
  count_step(form, sample)
  local states = plan_event(seq, form, subject, version, next_row, first, rare)
  planned = planned + 1
  return states and seq .. ' ' .. states or seq
end

local function quarantine()
  local row, separate, received_at, usage, tail, field = take(), take(), take(), take(), take(), take()
  local seq = store_event(row, separate)
  call('ZADD', base .. 'quarantined', received_at, seq)
  if usage ~= '' then count_usage(usage, true) end
  count(tail, field, 1)
  return { 1, seq }
end

-- Settles a delivery as delivered, by far the most frequent step of a worker: seq, at, attempt, its number. Its form has the
-- holder in the place of the secret usage.
local function delivered(form)
  local seq, at, attempt, number = take(), take(), take(), take()
  local sample = form.is_timed and take()
  local released = operations.settle({ seq, form.routes[1], form.usage, '2', '', '', at, attempt, '', number, '', '' })
  if released ~= '' then count_step(form, sample) end
  return { 1, released }
end

local shared = { A = accept, P = plan, D = delivered }

-- What the steps share: accounts, verdicts by digest, secret usage with the first and last time of the batch, forms, and
-- the strings that the steps read.
for _ = 1, tonumber(take()) do accounts[take()] = true end
for _ = 1, tonumber(take()) do
  local digest = take()
  plans[digest] = take()
end
for _ = 1, tonumber(take()) do
  local key, first, last = take(), take(), take()
  usages[key] = { events = 0, duplicates = 0, first = tonumber(first), last = tonumber(last) }
end
for n = 1, tonumber(take()) do
  local run, usage, rare, timed, routes_of, changes = shared[take()], take(), take(), take(), {}, {}
  for route = 1, tonumber(take()) do routes_of[route] = take() end
  for change = 1, tonumber(take()) do changes[change] = take() end
  forms[tostring(n)] =
    { run = run, usage = usage, is_rare = rare == '1', is_timed = timed == '1', routes = routes_of, counts = changes }
end
local reads = {}
for n = 1, tonumber(take()) do reads[n] = base .. take() end
for from = 1, #reads, most_words do
  local values = call('MGET', unpack(reads, from, math.min(from + most_words - 1, #reads)))
  for n = 1, #values do known[reads[from + n - 1]] = values[n] end
end

-- Other kinds are numbers of forms.
local kinds = { T = transact, Q = quarantine }
local results = {}
-- After a fault in one step, the earlier steps must still be written, or a seq would be assigned twice.
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
