#!lua
-- An alarm begins or ends. ARGV: base, the alarm's name, 'began' or 'ended', the alarm, the change, who asks. Gives 1 when
-- the one who asks is to tell of the change: it made it, now or in a first try whose answer was lost.
local base, name, state, alarm, change, teller = unpack(ARGV)
local call = redis.call
local made
if state == 'began' then
  made = call('HSETNX', base .. 'alarms', name, alarm)
else
  made = call('HDEL', base .. 'alarms', name)
end
if made == 1 then call('HSET', base .. 'untold', change, teller) end
return call('HGET', base .. 'untold', change) == teller and 1 or 0
