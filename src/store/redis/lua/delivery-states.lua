#!lua flags=no-writes
-- Reads the states of deliveries. ARGV: base, then `<seq>:<route>` of each. Returns one text with a character for each: the
-- number of its state, or - where the delivery does not exist.
local base = ARGV[1] .. 'd:'
local states = {}
for n = 2, #ARGV do states[n - 1] = redis.call('HGET', base .. ARGV[n], 's') or '-' end
return table.concat(states)
