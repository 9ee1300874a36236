#!lua flags=no-writes
-- Reads deliveries for an audit, each in one consistent state with the lists it is in. ARGV: base, then seq and route in
-- turn. Returns for each '' or { state, attempts, places, attempts without their responses,
-- fields… }. Places are letters: d due, l leased, p proxied, h held,
-- x dead; c is in a wrong list by cause, or in none; n is the delivery of its message that is sent, b is held behind the one that is sent.
local base = ARGV[1]
local call = redis.call
local found = {}
local lists = {}
for n = 2, #ARGV, 2 do
  local seq, route = ARGV[n], ARGV[n + 1]
  local key = base .. 'd:' .. seq .. ':' .. route
  local now = call('HMGET', key, 's', 'a', 'o', 'k')
  if not now[1] then
    found[#found + 1] = ''
  else
    local member = string.format('%015d', tonumber(seq))
    local places = ''
    if call('ZSCORE', base .. 'due:' .. route, member) then places = places .. 'd' end
    if call('ZSCORE', base .. 'leased:' .. route, member) then places = places .. 'l' end
    if call('ZSCORE', base .. 'px:' .. route, seq) then places = places .. 'p' end
    if call('ZSCORE', base .. 'held:' .. route, seq) then places = places .. 'h' end
    if call('ZSCORE', base .. 'dead:' .. route, seq) then places = places .. 'x' end
    lists[route] = lists[route] or call('SMEMBERS', base .. 'causes:' .. route)
    local own = (now[1] == '0' or now[1] == '3') and now[4] and now[1] .. ':' .. now[4]
    local listed, astray = false, false
    for _, name in ipairs(lists[route]) do
      if call('ZSCORE', base .. 'cause:' .. route .. ':' .. name, seq) then
        if name == own then listed = true else astray = true end
      end
    end
    if astray or (own and not listed) then places = places .. 'c' end
    if now[3] then
      local going = call('GET', base .. 'o:' .. route .. ':' .. now[3])
      if going == seq then
        places = places .. 'n'
      elseif going and call('ZSCORE', base .. 'oh:' .. route .. ':' .. now[3], seq) and call('HGET', base .. 'd:' .. going .. ':' .. route, 's') == '0' then
        places = places .. 'b'
      end
    end
    local heads = {}
    local one = { now[1], now[2] or '0', places, heads }
    for _, field in ipairs(call('HKEYS', key)) do
      one[#one + 1] = field
      if string.find(field, '^a%d+$') then heads[#heads + 1] = string.match(call('HGET', key, field), '^[^\n]*') end
    end
    found[#found + 1] = one
  end
end
return found
