#!lua
-- Writes one batch of a migration and its progress. ARGV: base, version of the row `migration` ('': begin, on unused keys),
-- the next row, the file's greatest seq, then commands, each after its length. Returns 'ok', or why nothing was written:
-- 'used', 'stale' (another migration is running), 'stored' (a relay has stored events).
local base, version, row, seq = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call

local now = call('GET', base .. 'migration')
if (now and string.sub(now, 1, 10) or '') ~= version then return 'stale' end
if version == '' then
  for _, name in ipairs({ 'seq', 'numbers', 'accounts', 'routes', 'usage', 'sends', 'cursors', 'stopped' }) do
    if call('EXISTS', base .. name) == 1 then return 'used' end
  end
elseif (call('GET', base .. 'seq') or '0') ~= seq then
  return 'stored'
end
local place = 5
while place <= #ARGV do
  local last = place + tonumber(ARGV[place])
  call(unpack(ARGV, place + 1, last))
  place = last + 1
end
call('SET', base .. 'migration', row)
return 'ok'
