#!lua
-- The shared breaker of a destination: the table in deliver/breaker.ts, with a leased probe, because the prober may die.
-- KEYS[1]: hash of `state`, `failures`, `until`, `pause`, `prober`, `probeUntil`, `pausedUntil`, `pausedFor`, `since` (of the
-- first failure in a row); missing when closed without failures.
-- ARGV: unix ms ('': Redis' clock), holder, verdicts in order (s, f, n), lease of the requested probe in ms (''), pause in
-- ms (''), then settings: failures, pause, longest; '1' when an operator wants an attempt now ('').
-- Returns state, failures, ms left open, ms left of the probe, 1 if the holder has it, ms left paused, 1 if the operator
-- ended a pause or the time that it stays open.
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local holder, verdicts, lease, rest = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local most, first, longest = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

local has = redis.call('HMGET', KEYS[1], 'state', 'failures', 'until', 'pause', 'prober', 'probeUntil', 'pausedUntil', 'pausedFor',
  'since')
local state, failures = has[1] or 'closed', tonumber(has[2] or 0)
local openUntil, pause = tonumber(has[3] or 0), tonumber(has[4] or first)
local prober, probeUntil, pausedUntil = has[5] or '', tonumber(has[6] or 0), tonumber(has[7] or 0)
local pausedFor, since = tonumber(has[8] or 0), tonumber(has[9] or 0)
local triesNow = ARGV[9] == '1'

local function move(to)
  state, failures, prober, probeUntil = to, 0, '', 0
  if to == 'open' then openUntil = now + pause end
  if to == 'closed' then pause = first end
end

-- More left than a whole pause: the clock was set back, which must not keep the breaker open.
local isSetBack = pausedUntil > now + pausedFor or (state == 'open' and openUntil > now + pause)
pausedUntil = math.min(pausedUntil, now + pausedFor)
local isEnded = triesNow and pausedUntil > now
if triesNow then pausedUntil = 0 end
if state == 'open' then
  openUntil = math.min(openUntil, now + pause)
  isEnded = isEnded or (triesNow and openUntil > now)
  if triesNow or openUntil <= now then move('half-open') end
end
if probeUntil <= now then prober, probeUntil = '', 0 end

for place = 1, #verdicts do
  local verdict = string.sub(verdicts, place, place)
  if verdict == 's' then since = 0 elseif verdict == 'f' and since == 0 then since = now end
  if state == 'half-open' then
    if verdict == 's' then
      move('closed')
    elseif verdict == 'f' then
      pause = math.max(first, math.min(pause * 2, longest))
      move('open')
    elseif prober == holder then
      prober, probeUntil = '', 0
    end
  elseif state == 'closed' then
    if verdict == 's' then
      failures = 0
    elseif verdict == 'f' then
      failures = failures + 1
      if failures >= most then move('open') end
    end
  end
end

if lease and state == 'half-open' and (prober == '' or prober == holder) then
  prober, probeUntil = holder, now + lease
end
if rest and now + rest > pausedUntil then pausedUntil, pausedFor = now + rest, rest end

if state == 'closed' and failures == 0 and pausedUntil <= now then
  if has[1] then redis.call('DEL', KEYS[1]) end
elseif verdicts ~= '' or lease or rest or isSetBack or isEnded or state ~= has[1] then
  redis.call('HSET', KEYS[1], 'state', state, 'failures', failures, 'until', openUntil, 'pause', pause,
    'prober', prober, 'probeUntil', probeUntil, 'pausedUntil', pausedUntil,
    'pausedFor', pausedFor, 'since', since)
  -- Expire the state of removed routes.
  redis.call('PEXPIRE', KEYS[1], math.max(openUntil, probeUntil, pausedUntil, now) - now + longest + 3600000)
end

return { state, failures, math.max(0, state == 'open' and openUntil - now or 0), math.max(0, probeUntil - now),
  (prober == holder and prober ~= '') and 1 or 0, math.max(0, pausedUntil - now),
  isEnded and 1 or 0 }
