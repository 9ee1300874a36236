#!lua
-- Applies a batch of steps, each whole or not at all. ARGV is one flat list, read from the front: text needs no escaping,
-- and bytes stay bytes. The first line makes Redis refuse the whole script when it is full or a replica, before
-- anything is written.
local base = ARGV[1]
local place = 2
local function take()
  local value = ARGV[place]
  place = place + 1
  return value
end

local call = redis.call
local routes, proofs = {}, {}
local has_routes, has_proofs = false, false

local function padded(seq)
  return string.format('%015d', tonumber(seq))
end

-- Of one message on one route a single delivery goes out, the others are held behind it (promise 3).
local function plan_delivery(seq, route, order, at, replays)
  routes[route] = true
  has_routes = true
  local key = base .. 'd:' .. seq .. ':' .. route
  if at == '' then
    call('HSET', key, 's', '0')
    call('ZADD', base .. 'px:' .. route, order, seq)
    return '0'
  end
  if replays ~= '0' then call('HSET', key, 'rp', replays) end
  if order == '' then
    call('HSET', key, 's', '0', 'n', at)
    call('ZADD', base .. 'due:' .. route, at, padded(seq))
    return '0'
  end
  local open = base .. 'o:' .. route .. ':' .. order
  if call('EXISTS', open) == 1 then
    call('HSET', key, 's', '1', 'o', order)
    call('ZADD', open, seq, seq)
    call('ZADD', base .. 'held:' .. route, seq, seq)
    return '1'
  end
  call('HSET', key, 's', '0', 'o', order, 'n', at)
  call('ZADD', open, '-' .. seq, seq)
  call('ZADD', base .. 'due:' .. route, at, padded(seq))
  return '0'
end

-- The oldest one held goes next, unless another is already under way.
local function release_next(route, order, at)
  local open = base .. 'o:' .. route .. ':' .. order
  local first = call('ZRANGE', open, 0, 0, 'WITHSCORES')
  if #first == 0 or tonumber(first[2]) < 0 then return 'x' end
  local seq = first[1]
  call('ZADD', open, '-' .. seq, seq)
  call('ZREM', base .. 'held:' .. route, seq)
  call('HSET', base .. 'd:' .. seq .. ':' .. route, 's', '0', 'n', at)
  call('ZADD', base .. 'due:' .. route, at, padded(seq))
  return seq
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
    local open = base .. 'o:' .. route .. ':' .. order
    if call('EXISTS', open) == 1 then
      call('HSET', key, 's', '1')
      call('HDEL', key, 'n')
      call('ZADD', open, seq, seq)
      call('ZADD', base .. 'held:' .. route, seq, seq)
      return '1'
    end
    call('ZADD', open, '-' .. seq, seq)
  end
  call('HSET', key, 's', '0', 'n', at)
  call('ZADD', base .. 'due:' .. route, at, padded(seq))
  return '0'
end

local operations = {}

-- Any command of Redis.
function operations.call(arguments)
  return call(unpack(arguments))
end

function operations.deliver(a)
  return plan_delivery(a[1], a[2], a[3], a[4], a[5])
end

-- A place of its own, once, in the order things came; nothing when it has one.
function operations.number(a)
  if call('ZSCORE', a[1], a[2]) then return '' end
  call('ZADD', a[1], call('INCR', base .. 'numbers'), a[2])
  return ''
end

-- From one list to another with the number it has.
function operations.move(a)
  local number = call('ZSCORE', a[1], a[3])
  if not number then number = call('INCR', base .. 'numbers') else call('ZREM', a[1], a[3]) end
  call('ZADD', a[2], 'NX', number, a[3])
  return ''
end

-- seq, route, holder, to (state), next at, reason, at, attempt, stop, number of the attempt. Gives '' when nothing was
-- written: it is settled, or another's, or this is a repeat. Else 'x', or the seq of the delivery it released.
function operations.settle(a)
  local seq, route, to, at = a[1], a[2], a[4], a[7]
  local key = base .. 'd:' .. seq .. ':' .. route
  if a[9] ~= '' then call('HSET', base .. 'stopped', route, cjson.encode({ at = tonumber(at), reason = a[9] })) end
  local now = call('HMGET', key, 's', 'o', 'a', 'c')
  local number = (tonumber(now[3]) or 0) + 1
  if now[1] ~= '0' or number ~= tonumber(a[10]) then return '' end
  -- Claimed anew after this lease ran out: what the other makes of it holds. But delivered is delivered.
  if a[3] ~= '' and now[4] and now[4] ~= a[3] and to ~= '2' then return '' end
  call('HSET', key, 'a', number, 'a' .. number, a[8])
  local member = padded(seq)
  call('ZREM', base .. 'leased:' .. route, member)
  call('HINCRBY', key, 'p', 1)
  call('HDEL', key, 'c')
  if to == '0' then
    call('HSET', key, 'n', a[5])
    call('ZADD', base .. 'due:' .. route, a[5], member)
    return 'x'
  end
  call('ZREM', base .. 'due:' .. route, member)
  call('ZREM', base .. 'px:' .. route, seq)
  call('HSET', key, 's', to, 't', at)
  call('HDEL', key, 'n')
  if to == '3' then
    call('HSET', key, 'r', a[6])
    call('ZADD', base .. 'dead:' .. route, seq, seq)
  end
  if not now[2] then return 'x' end
  call('ZREM', base .. 'o:' .. route .. ':' .. now[2], seq)
  return release_next(route, now[2], at)
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
      local row = call('GET', key)
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

local function prove(key, at, is_new)
  local sum = proofs[key]
  if not sum then
    sum = { events = 0, duplicates = 0, first = at, last = at }
    proofs[key] = sum
    has_proofs = true
  end
  if is_new then sum.events = sum.events + 1 else sum.duplicates = sum.duplicates + 1 end
  if at < sum.first then sum.first = at end
  if at > sum.last then sum.last = at end
end

local function store_event(row, body, received_at)
  local seq = tostring(call('INCR', base .. 'seq'))
  local number = tonumber(seq)
  call('SET', base .. 'e:' .. seq, row)
  call('SET', base .. 'b:' .. seq, body)
  call('SETBIT', base .. 'live:' .. math.floor(number / 65536), number % 65536, 1)
  return seq
end

-- Accept + track + plan: a duplicate changes nothing but its count, and a subject that somebody changed meanwhile is given back.
local function accept()
  local id, body, row = take(), take(), take()
  local subject, version, next_row, kind = take(), take(), take(), take()
  local received_at, disposition, parked_until = take(), take(), take()
  local plan, verdicts, learned, proof = take(), take(), take(), take()
  local deliveries = place
  place = place + 1 + 3 * tonumber(ARGV[place])
  local after = place

  local id_key = base .. 'id:' .. id
  local same = call('GET', id_key)
  if same then
    skip_operations()
    if proof ~= '' then prove(proof, tonumber(received_at), false) end
    call('HINCRBY', base .. 'dups', same, 1)
    local stored = call('GET', base .. 'b:' .. same)
    local conflict = stored ~= body
    if conflict then call('HINCRBY', base .. 'conflicts', same, 1) end
    return { 2, same, conflict and 1 or 0 }
  end
  if subject ~= '' then
    local current = call('GET', base .. subject)
    if (current and string.sub(current, 1, 10) or '') ~= version then
      skip_operations()
      return { 0, 0, current or '' }
    end
  end

  local seq = store_event(row, body)
  call('SET', id_key, seq)
  if proof ~= '' then prove(proof, tonumber(received_at), true) end
  if subject ~= '' then
    if next_row ~= '' then call('SET', base .. subject, next_row) end
    if version == '' then call('ZADD', base .. 'seen:' .. kind, call('INCR', base .. 'numbers'), subject) end
    call('ZADD', base .. 'es:' .. subject, seq, seq)
  end
  if disposition == '2' then call('ZADD', base .. 'ignored', received_at, seq) end
  if parked_until ~= '' then
    call('ZADD', base .. 'parked', parked_until, seq)
    if subject ~= '' then call('ZADD', base .. 'pk:' .. subject, seq, seq) end
  end
  if learned ~= '' then call('ZADD', base .. 'learned:' .. learned, seq, seq) end
  call('HSETNX', base .. 'plans', plan, verdicts)
  local result = { 1, seq }
  place = deliveries
  for n = 1, tonumber(take()) do
    local route, order, at = take(), take(), take()
    result[n + 2] = plan_delivery(seq, route, order, at, '0')
  end
  place = after
  for _ = 1, tonumber(take()) do
    local name, arguments = operate()
    for n = 1, #arguments do arguments[n] = string.gsub(arguments[n], '@seq@', seq) end
    operations[name](arguments)
  end
  return result
end

local function quarantine()
  local row, body, received_at, proof = take(), take(), take(), take()
  local seq = store_event(row, body)
  call('ZADD', base .. 'quarantined', received_at, seq)
  if proof ~= '' then prove(proof, tonumber(received_at), true) end
  return { 1, seq }
end

local kinds = { T = transact, A = accept, Q = quarantine }
local results = {}
for n = 1, tonumber(take()) do results[n] = kinds[take()]() end

if has_routes then
  local names = {}
  for route in pairs(routes) do names[#names + 1] = route end
  call('SADD', base .. 'routes', unpack(names))
end
if has_proofs then
  local key = base .. 'proofs'
  for proof, sum in pairs(proofs) do
    if sum.events > 0 then call('HINCRBY', key, proof .. ':events', sum.events) end
    if sum.duplicates > 0 then call('HINCRBY', key, proof .. ':duplicates', sum.duplicates) end
    local known = call('HMGET', key, proof .. ':first', proof .. ':last')
    if not known[1] or sum.first < tonumber(known[1]) then call('HSET', key, proof .. ':first', string.format('%.0f', sum.first)) end
    if not known[2] or sum.last > tonumber(known[2]) then call('HSET', key, proof .. ':last', string.format('%.0f', sum.last)) end
  end
end
return results
