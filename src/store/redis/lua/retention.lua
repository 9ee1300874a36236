-- What retention takes in a step of commit.lua; it stands before that script's own text (script.ts).

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
