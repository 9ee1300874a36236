#!lua
-- Marks a prefix as a relay's, or raises the mark of an older version; its name stays. KEYS: the mark. ARGV: version, name
-- of a new one. Gives the mark as it is then.
local mark = redis.call('GET', KEYS[1])
local version, name = string.match(mark or '', '^([1-9]%d*)( .+)$')
local raised = mark
if not mark then raised = ARGV[1] .. ' ' .. ARGV[2] end
if version and tonumber(version) < tonumber(ARGV[1]) then raised = ARGV[1] .. name end
if raised ~= mark then redis.call('SET', KEYS[1], raised) end
return raised
