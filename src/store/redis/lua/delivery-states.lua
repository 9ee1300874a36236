#!lua flags=no-writes
-- Reads the states of deliveries. ARGV: base, then `<seq>:<route>` of each. Returns for each the number of its state and, after
-- a blank, the cause of its last failed attempt; an empty text where the delivery does not exist.
local base = ARGV[1] .. 'd:'
local states = {}
for n = 2, #ARGV do
  local found = redis.call('HMGET', base .. ARGV[n], 's', 'k')
  states[n - 1] = (found[1] or '') .. (found[2] and ' ' .. found[2] or '')
end
return states
