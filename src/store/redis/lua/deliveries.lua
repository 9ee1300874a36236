-- Operations on deliveries. Prepended to commit.lua (script.ts).

-- Undelivered deliveries whose last attempt failed are listed by route, state and cause; `causes:` has these lists.
local function list_cause(seq, route, state, cause)
  local name = state .. ':' .. cause
  call('ZADD', base .. 'cause:' .. route .. ':' .. name, seq, seq)
  call('SADD', base .. 'causes:' .. route, name)
end

local function unlist_cause(seq, route, state, cause)
  local name = state .. ':' .. cause
  local key = base .. 'cause:' .. route .. ':' .. name
  call('ZREM', key, seq)
  if call('EXISTS', key) == 0 then call('SREM', base .. 'causes:' .. route, name) end
end

-- Only one delivery of a message is sent per route; the others are held behind it (promise 3). `o:` is the seq of the one
-- that is sent, `oh:` has those held.
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

-- The delivery that was sent is settled: release the oldest one held.
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

-- A settled delivery waits again, or is held if its message has an open one.
local function requeue(seq, route, at)
  local key = base .. 'd:' .. seq .. ':' .. route
  local now = call('HMGET', key, 'o', 's', 'k')
  local order = now[1]
  if now[2] == '3' and now[3] then unlist_cause(seq, route, '3', now[3]) end
  call('HDEL', key, 't', 'r', 'c', 'k')
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

function operations.deliver(a)
  return plan_delivery(a[1], a[2], a[3], a[4], a[5])
end

-- A waiting delivery is due at once.
local function go_now(seq, route, at)
  call('HSET', base .. 'd:' .. seq .. ':' .. route, 'n', at)
  call('ZADD', base .. 'due:' .. route, 'XX', at, padded(seq))
  return '0'
end

-- Seq, route, holder, state, next at, cause of the failure with a blank and the reason, at, attempt, stop, number of the
-- attempt, '1' if it is spared, the event's id as JSON if the seq may name another event by now; then what it changes in the
-- history, as `count`. Returns '' when nothing was written (already settled, claimed by another holder, or a repeat), else
-- 'x' or the seq of the released delivery.
function operations.settle(a)
  local seq, route, to, at = a[1], a[2], a[4], a[7]
  local key = base .. 'd:' .. seq .. ':' .. route
  if a[9] ~= '' then call('HSET', base .. 'stopped', route, cjson.encode({ at = tonumber(at), reason = a[9] })) end
  if a[12] ~= '' then
    -- Redis lost the event that was sent; another event has its seq.
    local row = call('GET', base .. 'e:' .. seq) or ''
    if not string.find(string.match(row, '^[^\n]*'), a[12], 11, true) then return '' end
  end
  local now = call('HMGET', key, 's', 'o', 'a', 'c', 'p', 'k')
  local number = (tonumber(now[3]) or 0) + 1
  if now[1] ~= '0' or number ~= tonumber(a[10]) then return '' end
  -- Another holder claimed it after this lease expired, and its result counts, unless this one delivered it.
  if a[3] ~= '' and now[4] and now[4] ~= a[3] and to ~= '2' then return '' end
  local spent = (tonumber(now[5]) or 0) + (a[11] == '1' and 0 or 1)
  for n = 13, #a, 3 do count(a[n], a[n + 1], tonumber(a[n + 2])) end
  local member = padded(seq)
  local ends = ended[route]
  if not ends then
    ends = {}
    ended[route] = ends
  end
  ends[#ends + 1] = member
  local cause, reason = string.match(a[6], '^(%S+) (.*)$')
  if now[6] and (to ~= '0' or now[6] ~= cause) then unlist_cause(seq, route, '0', now[6]) end
  if cause then
    call('HSET', key, 'k', cause)
    if to ~= '0' or now[6] ~= cause then list_cause(seq, route, to, cause) end
  end
  if to == '0' then
    call('HSET', key, 'a', number, 'a' .. number, a[8], 'p', spent, 'n', a[5])
    call('HDEL', key, 'c')
    add(due, route, a[5], member)
    return 'x'
  end
  if not now[4] then call('ZREM', base .. 'due:' .. route, member) end
  -- Proxied exchanges are not claimed.
  if a[3] == '' then call('ZREM', base .. 'px:' .. route, seq) end
  call('HSET', key, 'a', number, 'a' .. number, a[8], 'p', spent, 's', to, 't', at)
  call('HDEL', key, 'c', 'n')
  if to == '3' then
    call('HSET', key, 'r', reason)
    call('ZADD', base .. 'dead:' .. route, seq, seq)
  end
  return now[2] and release_next(seq, route, now[2], at) or 'x'
end

-- Retries a delivery in any state: a settled one waits again, a waiting one is due at once. Returns its state then; '': not found.
function operations.retry(a)
  local seq, route, at = a[1], a[2], a[3]
  local key = base .. 'd:' .. seq .. ':' .. route
  local state = call('HGET', key, 's')
  if not state then return '' end
  if state == '1' then return '1' end
  if state == '0' then return go_now(seq, route, at) end
  return requeue(seq, route, at)
end

-- Replays a delivery if it is still in one of the given states (digits), else returns ''.
function operations.replay(a)
  local state = call('HGET', base .. 'd:' .. a[1] .. ':' .. a[2], 's')
  if not state or not string.find(a[4], state, 1, true) then return '' end
  if state == '0' then return go_now(a[1], a[2], a[3]) end
  return requeue(a[1], a[2], a[3])
end

-- Ends the exchanges of a proxied route that began before a time; returns their number. Last: where the history counts them.
function operations.abandon(a)
  local route, before, at, reason = a[1], a[2], a[3], a[4]
  local left = call('ZRANGEBYSCORE', base .. 'px:' .. route, '-inf', before)
  for _, seq in ipairs(left) do
    call('HSET', base .. 'd:' .. seq .. ':' .. route, 's', '3', 't', at, 'r', reason)
    call('ZADD', base .. 'dead:' .. route, seq, seq)
  end
  call('ZREMRANGEBYSCORE', base .. 'px:' .. route, '-inf', before)
  if #left > 0 then count(a[5], a[6], #left) end
  return #left
end
