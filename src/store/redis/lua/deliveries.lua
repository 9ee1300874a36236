-- What becomes of deliveries in a step of commit.lua; it stands before that script's own text (script.ts).

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

function operations.deliver(a)
  return plan_delivery(a[1], a[2], a[3], a[4], a[5])
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
