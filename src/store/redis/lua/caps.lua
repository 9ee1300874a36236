#!lua
-- One step of a process that shares an account's caps: reports ended calls and a new state, and requests slots.
-- KEYS[1] is the account's hash. The names of its other keys begin with it, so that all are in one slot of a Cluster:
--   (hash)     born, bornAt, wall, now, newest, version, state, messagesFull, pollsFull
--   :slots:<k> zset of slot ids by kind 1 to 6, by the time at which they become free
--   :under     zset `<kind>:<id>` of calls in flight, by the time at which they count as lost
--   :waiting   hash `<holder>|<kind>` of waiting callers: `<since>|<count>|<until>`
-- ARGV[1]: the request as JSON. ARGV[2]: unix ms, or empty: Redis' clock, because the clocks of hosts differ.
-- The answer is JSON. Kinds are 1 and 2 sends, 3 and 4 requests that a caller waits for, 5 and 6 polls; odd ones are messages.
local WINDOW = 60000
-- A call that is not renewed for this long counts as lost.
local LEASE = 60000
-- Longest wait: another process may return a slot that it did not use.
local LOOK = 1000
-- Longest wait for a place in flight: a call of another process may end at any time.
local LOOK_UNDER = 100
-- A caller that does not return in time keeps its place this much longer.
local LATE = 250
local KINDS = 6
local PREFIX = KEYS[1]
local request = cjson.decode(ARGV[1])
local call = redis.call

-- The time continues from where it was when the clock is set back.
local fields = call("HMGET", PREFIX, "born", "bornAt", "wall", "now", "newest", "version", "messagesFull", "pollsFull")
local wall = tonumber(ARGV[2])
if not wall then
  local time = call("TIME")
  wall = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local born, bornAt = fields[1], tonumber(fields[2])
local now = tonumber(fields[4])
if now then now = now + math.max(0, wall - tonumber(fields[3])) else now = wall end
local newest = tonumber(fields[5] or 0)
local version = tonumber(fields[6] or 0)
local full = { messages = tonumber(fields[7] or 0), polls = tonumber(fields[8] or 0) }

-- The hash is newer than the one this process knew, so counted calls were lost. Grant nothing until they would have expired.
if not born then
  born, bornAt = request.holder .. ":" .. request.firstId, now
end
local quietUntil = tonumber(call("HGET", PREFIX, "quietUntil") or 0)
if request.born ~= "" and request.born ~= born then quietUntil = bornAt + WINDOW + request.graceMs end

local slots = {}
for kind = 1, KINDS do slots[kind] = PREFIX .. ":slots:" .. kind end
local under, waiting = PREFIX .. ":under", PREFIX .. ":waiting"

local function forget(kind, id)
  call("ZREM", under, kind .. ":" .. id)
  call("ZREM", slots[kind], id)
end

for _, ended in ipairs(request.ended) do
  if ended.how == "not-sent" then
    if ended.kind then forget(ended.kind, ended.id) else for kind = 1, KINDS do forget(kind, ended.id) end end
  else
    call("ZREM", under, ended.kind .. ":" .. ended.id)
    local counts = now - ended.ageMs + WINDOW
    if ended.how == "lost" then counts = counts + request.graceMs end
    call("ZADD", slots[ended.kind], counts, ended.id)
  end
end
for _, one in ipairs(request.renewed) do
  -- Also a call that already counted as lost: it is in flight.
  call("ZADD", slots[one.kind], "GT", now + LEASE + request.graceMs + WINDOW, one.id)
  call("ZADD", under, now + LEASE, one.kind .. ":" .. one.id)
end

local held = {}
for kind = 1, KINDS do
  call("ZREMRANGEBYSCORE", slots[kind], "-inf", now)
  held[kind] = call("ZCARD", slots[kind])
end
call("ZREMRANGEBYSCORE", under, "-inf", now)

-- Store the new state only if it is based on the stored one.
local isStored = false
if request.next and request.version == version and request.next.newest == newest then
  version = version + 1
  isStored = true
  call("HSET", PREFIX, "state", request.next.state)
end

-- Waiting callers: those of other processes that have not expired, and this one.
local line, since = {}, {}
local entries = call("HGETALL", waiting)
for place = 1, #entries, 2 do
  local holder, kind = entries[place]:match("^(.*)|(%d)$")
  local from, count, untilAt = entries[place + 1]:match("^(.-)|(.-)|(.-)$")
  kind = tonumber(kind)
  if holder == request.holder then
    since[kind] = tonumber(from)
    call("HDEL", waiting, entries[place])
  elseif tonumber(untilAt) <= now then
    call("HDEL", waiting, entries[place])
  else
    line[#line + 1] = { holder = holder, kind = kind, since = tonumber(from), count = tonumber(count) }
  end
end
for kind, count in ipairs(request.wants) do
  if count > 0 then line[#line + 1] = { holder = request.holder, kind = kind, since = since[kind] or now, count = count } end
end
local function priority(kind) return math.ceil(kind / 2) end
table.sort(line, function(a, b)
  if priority(a.kind) ~= priority(b.kind) then return priority(a.kind) < priority(b.kind) end
  if a.since ~= b.since then return a.since < b.since end
  if a.holder ~= b.holder then return a.holder < b.holder end
  return a.kind < b.kind
end)

local used = { all = 0, others = 0 }
for _, member in ipairs(call("ZRANGE", under, 0, -1)) do
  used.all = used.all + 1
  if tonumber(member:sub(1, 1)) > 2 then used.others = used.others + 1 end
end
-- The pace after the callers ahead in the line; `full` is the stored one.
local ahead = { messages = full.messages, polls = full.polls }

local function sum(isIn)
  local count = 0
  for kind = 1, KINDS do if isIn(kind) then count = count + held[kind] end end
  return count
end
local windows = {
  { limit = request.limits.requests, isIn = function() return true end },
  { limit = request.limits.messages, isIn = function(kind) return kind % 2 == 1 end },
  { limit = request.limits.asks, isIn = function(kind) return kind > 2 end },
  { limit = request.limits.polls, isIn = function(kind) return kind > 4 end },
}
local limits = { messages = request.limits.messages, polls = request.limits.polls }
-- The same as pace.ts.
local function paceAt(name)
  local interval = 60000 / limits[name]
  return math.ceil(ahead[name] + interval - math.ceil(limits[name] / 6) * interval - 0.000001)
end
local function paced(of, name) of[name] = math.max(of[name], now) + 60000 / limits[name] end

-- Now or earlier: one call of this kind may start. Later: try again then.
local function readyAt(kind)
  local at = math.max(now, quietUntil)
  for _, window in ipairs(windows) do
    if window.isIn(kind) and sum(window.isIn) >= window.limit then
      local first = now + LOOK
      for other = 1, KINDS do
        if window.isIn(other) then
          local score = call("ZRANGE", slots[other], 0, 0, "WITHSCORES")[2]
          if score then first = math.min(first, tonumber(score)) end
        end
      end
      at = math.max(at, first)
    end
  end
  if kind % 2 == 1 then at = math.max(at, paceAt("messages")) end
  if kind > 4 then at = math.max(at, paceAt("polls")) end
  if used.all >= request.atOnce.all or (kind > 2 and used.others >= request.atOnce.others) then at = math.max(at, now + LOOK_UNDER) end
  return at
end
local function count(kind)
  held[kind] = held[kind] + 1
  used.all = used.all + 1
  if kind > 2 then used.others = used.others + 1 end
  if kind % 2 == 1 then paced(ahead, "messages") end
  if kind > 4 then paced(ahead, "polls") end
end

local usedNow = { requests = sum(windows[1].isIn), messages = sum(windows[2].isIn) }
local granted, waitMs = {}, {}
for kind = 1, KINDS do waitMs[kind] = 0 end
local nextId = request.firstId
local room = { all = request.room.all, others = request.room.others }
for _, entry in ipairs(line) do
  local kind = entry.kind
  local isOwn = entry.holder == request.holder
  local left, got = entry.count, 0
  local at = now
  while left > 0 do
    if isOwn then left = math.min(left, room.all, kind > 2 and room.others or room.all) end
    if left == 0 then break end
    at = readyAt(kind)
    if at > now then break end
    count(kind)
    left = left - 1
    if isOwn then
      got = got + 1
      room.all = room.all - 1
      if kind > 2 then room.others = room.others - 1 end
      newest = newest + 1
      local id = request.holder .. ":" .. nextId
      nextId = nextId + 1
      call("ZADD", slots[kind], now + LEASE + request.graceMs + WINDOW, id)
      call("ZADD", under, now + LEASE, kind .. ":" .. id)
      if kind % 2 == 1 then paced(full, "messages"); usedNow.messages = usedNow.messages + 1 end
      if kind > 4 then paced(full, "polls") end
      usedNow.requests = usedNow.requests + 1
      granted[#granted + 1] = { id = id, kind = kind, number = newest }
    end
  end
  if left > 0 and isOwn then
    waitMs[kind] = math.min(math.max(at - now, 1), LOOK)
    -- A caller that got some slots goes to the end of the line.
    local from = got > 0 and now or entry.since
    call("HSET", waiting, entry.holder .. "|" .. kind, string.format("%.3f|%d|%.3f", from, left, now + waitMs[kind] + LATE))
  end
end

call("HSET", PREFIX, "born", born, "bornAt", bornAt, "quietUntil", quietUntil, "wall", wall, "now", now, "newest", newest,
  "version", version, "messagesFull", full.messages, "pollsFull", full.polls)
-- A used-up quota is remembered for a month at most.
call("PEXPIRE", PREFIX, 45 * 86400000)
for kind = 1, KINDS do call("PEXPIRE", slots[kind], 600000) end
call("PEXPIRE", under, 600000)
call("PEXPIRE", waiting, 600000)

return cjson.encode({
  born = born, now = now, granted = granted, waitMs = waitMs, used = usedNow, newest = newest, version = version,
  state = (request.version ~= version and not isStored) and call("HGET", PREFIX, "state") or cjson.null,
  isStored = isStored,
})
