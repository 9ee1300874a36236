#!lua
-- Applies a batch of steps, each whole or not at all. ARGV is one flat list, read from the front: text needs no escaping,
-- and bytes stay bytes. The first line makes Redis refuse the whole script when it is full or a replica, before
-- anything is written.
local place = 2
local function take()
  local value = ARGV[place]
  place = place + 1
  return value
end

-- What many steps of a batch add to one key is gathered, and written once at the end: each call costs more than it does.
local routes, accounts, plans, proofs, due, seen = {}, {}, {}, {}, {}, {}
-- Claims that end, by route; and by route what is held (true) or no more (false): the last word of the batch on each.
local ended, held = {}, {}
local last_seq, first_seq
local last_number, first_number

-- Strings are written together, too; until then `get` knows them. False: removed. What the steps will look at is read at
-- once before the first, and holds until a step calls a command of its own: false: not there.
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

-- Words of one command: Lua's stack has room for some thousands. Even, because most lists are of pairs.
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

-- Of one message on one route a single delivery goes out, the others are held behind it (promise 3): `o:` is the seq of
-- the one that goes out, `oh:` are those held.
local function plan_delivery(seq, route, order, at, replays)
  routes[route] = true
  local key = base .. 'd:' .. seq .. ':' .. route
  if at == '' then
    call('HSET', key, 's', '0')
    call('ZADD', base .. 'px:' .. route, order, seq)
    return '0'
  end
  if replays ~= '0' then call('HSET', key, 'rp', replays) end
  if order == '' then
    call('HSET', key, 's', '0', 'n', at)
  else
    local going = base .. 'o:' .. route .. ':' .. order
    if get(going) then
      call('HSET', key, 's', '1', 'o', order)
      call('ZADD', base .. 'oh:' .. route .. ':' .. order, seq, seq)
      hold(route, seq, true)
      return '1'
    end
    put(going, seq)
    call('HSET', key, 's', '0', 'o', order, 'n', at)
  end
  add(due, route, at, padded(seq))
  return '0'
end

-- The one that went out is settled: the oldest one held goes next.
local function release_next(seq, route, order, at)
  local going = base .. 'o:' .. route .. ':' .. order
  if get(going) ~= seq then return 'x' end
  local first = call('ZPOPMIN', base .. 'oh:' .. route .. ':' .. order)[1]
  if not first then
    remove(going)
    return 'x'
  end
  put(going, first)
  hold(route, first, false)
  call('HSET', base .. 'd:' .. first .. ':' .. route, 's', '0', 'n', at)
  add(due, route, at, padded(first))
  return first
end

-- A settled delivery waits again, or is held when its message has an open one.
local function requeue(seq, route, at)
  local key = base .. 'd:' .. seq .. ':' .. route
  local order = call('HGET', key, 'o')
  call('HDEL', key, 't', 'r', 'c')
  call('HSET', key, 'p', '0')
  call('HINCRBY', key, 'rp', 1)
  call('ZREM', base .. 'dead:' .. route, seq)
  if order then
    local going = base .. 'o:' .. route .. ':' .. order
    if get(going) then
      call('HSET', key, 's', '1')
      call('HDEL', key, 'n')
      call('ZADD', base .. 'oh:' .. route .. ':' .. order, seq, seq)
      hold(route, seq, true)
      return '1'
    end
    put(going, seq)
  end
  call('HSET', key, 's', '0', 'n', at)
  add(due, route, at, padded(seq))
  return '0'
end

-- The body that stands in an event's row, with the line's end before it.
local function body_part(row)
  local line = row and string.find(row, '\n', 11, true)
  return line and string.sub(row, line) or ''
end

local operations = {}

-- An event's row, anew; the body in it stays.
function operations.rewrite(a)
  put(a[1], a[2] .. body_part(get(a[1])))
  return ''
end

-- Any command of Redis.
function operations.call(arguments)
  flush()
  return call(unpack(arguments))
end

-- The same of an event that is being accepted: `@seq@` stands for its seq.
function operations.beside(arguments, seq)
  for n = 1, #arguments do arguments[n] = string.gsub(arguments[n], '@seq@', seq) end
  return operations.call(arguments)
end

function operations.deliver(a)
  return plan_delivery(a[1], a[2], a[3], a[4], a[5])
end

-- A place of its own, once, in the order things came; nothing when it has one.
function operations.number(a)
  if call('ZSCORE', a[1], a[2]) then return '' end
  call('ZADD', a[1], next_number(), a[2])
  return ''
end

-- From one list to another with the number it has.
function operations.move(a)
  local number = call('ZSCORE', a[1], a[3])
  if not number then number = next_number() else call('ZREM', a[1], a[3]) end
  call('ZADD', a[2], 'NX', number, a[3])
  return ''
end

-- seq, route, holder, to (state), next at, reason, at, attempt, stop, number of the attempt, '1' when it is spared, the
-- event's id as JSON when the seq may be another's by now. Gives '' when nothing was written: it is settled, or another's,
-- or this is a repeat. Else 'x', or the seq of the delivery it released.
function operations.settle(a)
  local seq, route, to, at = a[1], a[2], a[4], a[7]
  local key = base .. 'd:' .. seq .. ':' .. route
  if a[9] ~= '' then call('HSET', base .. 'stopped', route, cjson.encode({ at = tonumber(at), reason = a[9] })) end
  if a[12] ~= '' then
    -- Redis has lost the event that was sent, and another one is yet to be sent.
    local row = call('GET', base .. 'e:' .. seq) or ''
    if not string.find(string.match(row, '^[^\n]*'), a[12], 11, true) then return '' end
  end
  local now = call('HMGET', key, 's', 'o', 'a', 'c', 'p')
  local number = (tonumber(now[3]) or 0) + 1
  if now[1] ~= '0' or number ~= tonumber(a[10]) then return '' end
  -- Claimed anew after this lease ran out: what the other makes of it holds. But delivered is delivered.
  if a[3] ~= '' and now[4] and now[4] ~= a[3] and to ~= '2' then return '' end
  local spent = (tonumber(now[5]) or 0) + (a[11] == '1' and 0 or 1)
  local member = padded(seq)
  local ends = ended[route]
  if not ends then
    ends = {}
    ended[route] = ends
  end
  ends[#ends + 1] = member
  if to == '0' then
    call('HSET', key, 'a', number, 'a' .. number, a[8], 'p', spent, 'n', a[5])
    call('HDEL', key, 'c')
    add(due, route, a[5], member)
    return 'x'
  end
  if not now[4] then call('ZREM', base .. 'due:' .. route, member) end
  -- Exchanges of a proxy are nobody's claim.
  if a[3] == '' then call('ZREM', base .. 'px:' .. route, seq) end
  call('HSET', key, 'a', number, 'a' .. number, a[8], 'p', spent, 's', to, 't', at)
  call('HDEL', key, 'c', 'n')
  if to == '3' then
    call('HSET', key, 'r', a[6])
    call('ZADD', base .. 'dead:' .. route, seq, seq)
  end
  return now[2] and release_next(seq, route, now[2], at) or 'x'
end

-- Whatever its state: a settled one waits again, a waiting one goes out at once. Gives '' or the state then, and whether it is due now.
function operations.retry(a)
  local seq, route, at = a[1], a[2], a[3]
  local key = base .. 'd:' .. seq .. ':' .. route
  local state = call('HGET', key, 's')
  if not state then return '' end
  if state == '1' then return '1' end
  if state == '0' then
    call('HSET', key, 'n', at)
    call('ZADD', base .. 'due:' .. route, 'XX', at, padded(seq))
    return '0'
  end
  return requeue(seq, route, at)
end

-- Only when it is still settled in one of the states given (their digits); '' when it is not.
function operations.replay(a)
  local state = call('HGET', base .. 'd:' .. a[1] .. ':' .. a[2], 's')
  if not state or not string.find(a[4], state, 1, true) then return '' end
  return requeue(a[1], a[2], a[3])
end

-- Ends the exchanges of a proxied route that were begun before a time; gives how many.
function operations.abandon(a)
  local route, before, at, reason = a[1], a[2], a[3], a[4]
  local left = call('ZRANGEBYSCORE', base .. 'px:' .. route, '-inf', before)
  for _, seq in ipairs(left) do
    call('HSET', base .. 'd:' .. seq .. ':' .. route, 's', '3', 't', at, 'r', reason)
    call('ZADD', base .. 'dead:' .. route, seq, seq)
  end
  call('ZREMRANGEBYSCORE', base .. 'px:' .. route, '-inf', before)
  return #left
end

-- A subject in further lists, by the number it has in the first.
function operations.index(a)
  local number = call('ZSCORE', a[1], a[2])
  for n = 3, #a do call('ZADD', a[n], number, a[2]) end
  return ''
end

-- Ends parked events, each unless it was changed meanwhile: seq, version, next row, subject, received at, '1' when it is
-- ignored from now on. Gives how many.
function operations.expire(a)
  local gone, ignored = {}, {}
  for n = 1, #a, 6 do
    local seq, key = a[n], base .. 'e:' .. a[n]
    local row = get(key)
    if row and string.sub(row, 1, 10) == a[n + 1] then
      put(key, a[n + 2] .. body_part(row))
      gone[#gone + 1] = padded(seq)
      if a[n + 3] ~= '' then call('ZREM', base .. 'pk:' .. a[n + 3], seq) end
      if a[n + 5] == '1' then
        ignored[#ignored + 1] = a[n + 4]
        ignored[#ignored + 1] = seq
      end
    end
  end
  call_over('ZREM', base .. 'parked', gone)
  call_over('ZADD', base .. 'ignored', ignored)
  return #gone
end

-- Retention of one event: takes its deliveries settled before a time, and itself when it is old and has none left.
-- Whatever is left is to be looked at again, in `kept`, when it may go: no later than `latest`. An event that was changed
-- meanwhile is left. seq, version, settled before, '1': it is old, deliveries are kept for (ms), now, latest, when to look
-- at it once it has no deliveries ('': nobody need), account:id, subject, number of lists it stands in, these, routes with
-- a delivery… Gives events and deliveries taken.
function operations.sweep(a)
  flush()
  local seq, before, keep, now, latest, subject = a[1], tonumber(a[3]), tonumber(a[5]), tonumber(a[6]), tonumber(a[7]), a[10]
  local row = call('GET', base .. 'e:' .. seq)
  if not row then
    call('ZREM', base .. 'kept', seq)
    return { 0, 0 }
  end
  if string.sub(row, 1, 10) ~= a[2] then
    call('ZADD', base .. 'kept', now + 1000, seq)
    return { 0, 0 }
  end
  local taken, settled_last, is_open = 0, nil, false
  local first_route = 12 + tonumber(a[11])
  for n = first_route, #a do
    local key = base .. 'd:' .. seq .. ':' .. a[n]
    local found = call('HMGET', key, 's', 't')
    local settled_at = tonumber(found[2] or '')
    if settled_at and settled_at < before then
      call('DEL', key)
      call('ZREM', base .. 'dead:' .. a[n], seq)
      taken = taken + 1
    elseif settled_at then
      settled_last = math.max(settled_last or 0, settled_at)
    elseif found[1] then
      is_open = true
    end
  end
  if is_open or settled_last then
    local next_look = (is_open and now or settled_last) + keep + 1
    call('ZADD', base .. 'kept', format('%d', math.min(latest, next_look)), seq)
    return { 0, taken }
  end
  if a[4] ~= '1' then
    if a[8] ~= '' then call('ZADD', base .. 'kept', a[8], seq) else call('ZREM', base .. 'kept', seq) end
    return { 0, taken }
  end
  call('DEL', base .. 'e:' .. seq, base .. 'b:' .. seq, base .. 'h:' .. seq)
  if a[9] ~= '' then call('DEL', base .. 'id:' .. a[9]) end
  call('HDEL', base .. 'dups', seq)
  call('HDEL', base .. 'conflicts', seq)
  for n = 12, first_route - 1 do call('ZREM', base .. a[n], a[n] == 'parked' and padded(seq) or seq) end
  local chunk = base .. 'live:' .. math.floor(tonumber(seq) / 65536)
  call('SETBIT', chunk, tonumber(seq) % 65536, 0)
  if call('BITCOUNT', chunk) == 0 then call('DEL', chunk) end
  if subject ~= '' then
    call('ZREM', base .. 'es:' .. subject, seq)
    if call('EXISTS', base .. 'es:' .. subject) == 0 then call('ZADD', base .. 'bare', 0, subject) end
  end
  return { 1, taken }
end

-- Retention of a subject: unless it was changed meanwhile or has events. name, version, then commands with a key and a
-- member each. Gives how many were taken.
function operations.forget(a)
  flush()
  local name = a[1]
  call('ZREM', base .. 'bare', name)
  local row = call('GET', base .. name)
  if not row or string.sub(row, 1, 10) ~= a[2] or call('EXISTS', base .. 'es:' .. name) == 1 then return 0 end
  call('DEL', base .. name)
  for n = 3, #a, 3 do call(a[n], a[n + 1], a[n + 2]) end
  return 1
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

-- Seqs at the head of `unplanned`, as far as they were read; those planned here; and how many there were before this batch.
local heads, planned, waiting = {}, 0, nil
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
  write_proofs(proofs)
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
