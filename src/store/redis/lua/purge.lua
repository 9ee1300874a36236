-- Operations of the purge. Prepended to commit.lua (script.ts).

-- Purges one event: deletes its deliveries settled before a time, and the event if it is old and has none left. Otherwise
-- lists it in `kept` by when to check it again, `latest` at the latest. Skips an event that changed meanwhile. Arguments:
-- seq, version, settled before, '1' if it is old, retention of deliveries (ms), now, latest, when to check it again without
-- deliveries ('': never), account:id, subject, number of lists that have it, these lists, routes with a delivery… Returns
-- the numbers of deleted events and deliveries.
function operations.purge_event(a)
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
  local deleted, settled_last, is_open = 0, nil, false
  local first_route = 12 + tonumber(a[11])
  for n = first_route, #a do
    local key = base .. 'd:' .. seq .. ':' .. a[n]
    local found = call('HMGET', key, 's', 't', 'k')
    local settled_at = tonumber(found[2] or '')
    if settled_at and settled_at < before then
      call('DEL', key)
      call('ZREM', base .. 'dead:' .. a[n], seq)
      if found[1] == '3' and found[3] then unlist_cause(seq, a[n], '3', found[3]) end
      deleted = deleted + 1
    elseif settled_at then
      settled_last = math.max(settled_last or 0, settled_at)
    elseif found[1] then
      is_open = true
    end
  end
  if is_open or settled_last then
    local next_look = (is_open and now or settled_last) + keep + 1
    call('ZADD', base .. 'kept', format('%d', math.min(latest, next_look)), seq)
    return { 0, deleted }
  end
  if a[4] ~= '1' then
    if a[8] ~= '' then call('ZADD', base .. 'kept', a[8], seq) else call('ZREM', base .. 'kept', seq) end
    return { 0, deleted }
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
  return { 1, deleted }
end

-- Purges a subject, unless it changed meanwhile or has events. Arguments: name, version, list with its number, number of
-- lists of that number, these lists, then commands with a key and a member each. Returns the number of deleted subjects.
function operations.purge_subject(a)
  flush()
  local name = a[1]
  call('ZREM', base .. 'bare', name)
  local row = call('GET', base .. name)
  if not row or string.sub(row, 1, 10) ~= a[2] or call('EXISTS', base .. 'es:' .. name) == 1 then return 0 end
  call('DEL', base .. name)
  local number, first = call('ZSCORE', a[3], name), 5 + tonumber(a[4])
  for n = 5, number and first - 1 or 0 do call('ZREM', base .. a[n], number) end
  call('ZREM', a[3], name)
  for n = first, #a, 3 do call(a[n], a[n + 1], a[n + 2]) end
  return 1
end
