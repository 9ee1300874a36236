#!lua
-- Takes tokens from a shared rate limit: the generic cell rate algorithm, whose only state is the time at which the bucket
-- is full again.
-- KEYS[1]: that number. ARGV: unix ms ('': Redis' clock), tokens wanted, ms between two, ms that may be saved up.
-- Returns the tokens taken, and ms until the next one (0: at once).
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
end
local want, interval, saved = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local full = tonumber(redis.call('GET', KEYS[1]) or 0)
-- Further ahead than an empty bucket can be: the clock was set back, or the rate has changed.
full = math.max(now, math.min(full, now + saved))
-- A thousandth, because sums of fractions end just below the exact value.
local taken = math.max(0, math.min(want, math.floor((now + saved - full + 0.001) / interval)))
if taken > 0 then
  full = full + taken * interval
  redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now) + 60000)
end
return { taken, math.max(0, math.ceil(full + interval - saved - now - 0.001)) }
