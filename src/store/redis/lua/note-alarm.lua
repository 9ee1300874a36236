#!lua
-- An alarm begins or ends. ARGV: base, the alarm's name, 'began' or 'ended', the alarm, the change, the caller. Returns 1
-- when the caller reports the change: it made it, now or in an earlier try whose answer was lost.
local base, name, state, alarm, change, caller = unpack(ARGV)
local call = redis.call
local made
if state == 'began' then
  made = call('HSETNX', base .. 'alarms', name, alarm)
else
  made = call('HDEL', base .. 'alarms', name)
end
if made == 1 then call('HSET', base .. 'unsent', change, caller) end
return call('HGET', base .. 'unsent', change) == caller and 1 or 0
