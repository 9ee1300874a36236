#!lua flags=no-writes
-- A page of an account's registered messages, latest registration first. ARGV: base, account, list, registered at, wamid
-- ('': none), from, limit. Returns wamid, registered at, row, poll record ('': none), 1 if the service does not know it.
local base, account, at, wamid = ARGV[1], ARGV[2], ARGV[4], ARGV[5]
local list = base .. ARGV[3] .. ':' .. account
local from, limit = tonumber(ARGV[6]), tonumber(ARGV[7])
local call = redis.call

local place
if wamid ~= '' and call('ZSCORE', list, wamid) == at then place = call('ZREVRANK', list, wamid) + 1 end
-- Deleted meanwhile: begin with those registered in the same millisecond.
if not place then place = call('ZCOUNT', list, '(' .. at, '+inf') end

local found = {}
while #found < limit do
  local page = call('ZREVRANGE', list, place, place + limit - 1, 'WITHSCORES')
  if #page == 0 then return found end
  for n = 1, #page, 2 do
    if tonumber(page[n + 1]) < from or #found >= limit then return found end
    local row = call('GET', base .. 'm:' .. account .. ':' .. page[n])
    if row then
      local record = call('HGET', base .. 'poll:' .. account, page[n])
      local missing = call('ZSCORE', base .. 'missing:' .. account, page[n])
      found[#found + 1] = { page[n], page[n + 1], row, record or '', missing and 1 or 0 }
    end
  end
  place = place + limit
end
return found
