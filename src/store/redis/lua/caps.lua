#!lua
-- One step of a process that shares an account's caps: tells which calls ended and what was learned, asks for slots.
-- KEYS[1] is the account's hash, and begins the names of its other keys, so that all are in one slot of a Cluster:
--   (hash)     born, bornAt, wall, now, newest, version, state, messagesFull, pollsFull
--   :slots:<k> zset of slot ids by kind 1 to 6, by the time at which they come back
--   :under     zset `<kind>:<id>` of calls under way, by the time at which they are believed lost
--   :waiting   hash `<holder>|<kind>` of who waits: `<since>|<count>|<until>`
-- ARGV[1]: the request as JSON. ARGV[2]: unix ms, or empty: Redis's own clock, so that those of the hosts need not agree.
-- The answer is JSON. Kinds are 1 and 2 sends, 3 and 4 asks, 5 and 6 polls; odd ones are messages.
local WINDOW = 60000
-- A call that is not renewed for so long is believed lost.
local LEASE = 60000
-- Another look is worth it at least so often: another process may give back a slot that it did not use.
local LOOK = 1000
-- One under way elsewhere may end any time, and its place is free then.
local LOOK_UNDER = 100
-- Who said when it looks again is waited for so much longer.
local LATE = 250
local KINDS = 6
local PREFIX = KEYS[1]
local ask = cjson.decode(ARGV[1])
local call = redis.call

-- The time: it goes on from where it was, whatever is done to the clock.
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

-- A memory that is new, to somebody who knew an older one, has lost what counted: nothing goes until that no longer counts.
if not born then
  born, bornAt = ask.holder .. ":" .. ask.firstId, now
end
local quietUntil = tonumber(call("HGET", PREFIX, "quietUntil") or 0)
if ask.born ~= "" and ask.born ~= born then quietUntil = bornAt + WINDOW + ask.graceMs end

local slots = {}
for kind = 1, KINDS do slots[kind] = PREFIX .. ":slots:" .. kind end
local under, waiting = PREFIX .. ":under", PREFIX .. ":waiting"

local function forget(kind, id)
  call("ZREM", under, kind .. ":" .. id)
  call("ZREM", slots[kind], id)
end

for _, gone in ipairs(ask.ended) do
  if gone.how == "not-sent" then
    if gone.kind then forget(gone.kind, gone.id) else for kind = 1, KINDS do forget(kind, gone.id) end end
  else
    call("ZREM", under, gone.kind .. ":" .. gone.id)
    local counts = now - gone.ageMs + WINDOW
    if gone.how == "lost" then counts = counts + ask.graceMs end
    call("ZADD", slots[gone.kind], counts, gone.id)
  end
end
for _, one in ipairs(ask.renewed) do
  -- Also one that was forgotten: it is under way, and counts.
  call("ZADD", slots[one.kind], "GT", now + LEASE + ask.graceMs + WINDOW, one.id)
  call("ZADD", under, now + LEASE, one.kind .. ":" .. one.id)
end

local held = {}
for kind = 1, KINDS do
  call("ZREMRANGEBYSCORE", slots[kind], "-inf", now)
  held[kind] = call("ZCARD", slots[kind])
end
call("ZREMRANGEBYSCORE", under, "-inf", now)

-- What was learned is stored on what it was learned from, or not at all.
local isStored = false
if ask.next and ask.version == version and ask.next.newest == newest then
  version = version + 1
  isStored = true
  call("HSET", PREFIX, "state", ask.next.state)
end

-- Who waits: those of other processes whose time to look is not over, and the asker.
local line, since = {}, {}
local entries = call("HGETALL", waiting)
for place = 1, #entries, 2 do
  local holder, kind = entries[place]:match("^(.*)|(%d)$")
  local from, count, untilAt = entries[place + 1]:match("^(.-)|(.-)|(.-)$")
  kind = tonumber(kind)
  if holder == ask.holder then
    since[kind] = tonumber(from)
    call("HDEL", waiting, entries[place])
  elseif tonumber(untilAt) <= now then
    call("HDEL", waiting, entries[place])
  else
    line[#line + 1] = { holder = holder, kind = kind, since = tonumber(from), count = tonumber(count) }
  end
end
for kind, count in ipairs(ask.wants) do
  if count > 0 then line[#line + 1] = { holder = ask.holder, kind = kind, since = since[kind] or now, count = count } end
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
-- The pace as it is after those before in the line, and as it is stored.
local ahead = { messages = full.messages, polls = full.polls }

local function sum(isIn)
  local count = 0
  for kind = 1, KINDS do if isIn(kind) then count = count + held[kind] end end
  return count
end
local windows = {
  { limit = ask.limits.requests, isIn = function() return true end },
  { limit = ask.limits.messages, isIn = function(kind) return kind % 2 == 1 end },
  { limit = ask.limits.asks, isIn = function(kind) return kind > 2 end },
  { limit = ask.limits.polls, isIn = function(kind) return kind > 4 end },
}
local limits = { messages = ask.limits.messages, polls = ask.limits.polls }
-- The same as pace.ts.
local function paceAt(name)
  local interval = 60000 / limits[name]
  return math.ceil(ahead[name] + interval - math.ceil(limits[name] / 6) * interval - 0.000001)
end
local function paced(of, name) of[name] = math.max(of[name], now) + 60000 / limits[name] end

-- Now or earlier: one of this kind can go. Later: another look is worth it then.
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
  if used.all >= ask.atOnce.all or (kind > 2 and used.others >= ask.atOnce.others) then at = math.max(at, now + LOOK_UNDER) end
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
local nextId = ask.firstId
local room = { all = ask.room.all, others = ask.room.others }
for _, entry in ipairs(line) do
  local kind = entry.kind
  local isOwn = entry.holder == ask.holder
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
      local id = ask.holder .. ":" .. nextId
      nextId = nextId + 1
      call("ZADD", slots[kind], now + LEASE + ask.graceMs + WINDOW, id)
      call("ZADD", under, now + LEASE, kind .. ":" .. id)
      if kind % 2 == 1 then paced(full, "messages"); usedNow.messages = usedNow.messages + 1 end
      if kind > 4 then paced(full, "polls") end
      usedNow.requests = usedNow.requests + 1
      granted[#granted + 1] = { id = id, kind = kind, number = newest }
    end
  end
  if left > 0 and isOwn then
    waitMs[kind] = math.min(math.max(at - now, 1), LOOK)
    -- Who got some goes to the end of the line.
    local from = got > 0 and now or entry.since
    call("HSET", waiting, entry.holder .. "|" .. kind, string.format("%.3f|%d|%.3f", from, left, now + waitMs[kind] + LATE))
  end
end

call("HSET", PREFIX, "born", born, "bornAt", bornAt, "quietUntil", quietUntil, "wall", wall, "now", now, "newest", newest,
  "version", version, "messagesFull", full.messages, "pollsFull", full.polls)
-- A quota is known to be used up for a month at most.
call("PEXPIRE", PREFIX, 45 * 86400000)
for kind = 1, KINDS do call("PEXPIRE", slots[kind], 600000) end
call("PEXPIRE", under, 600000)
call("PEXPIRE", waiting, 600000)

return cjson.encode({
  born = born, now = now, granted = granted, waitMs = waitMs, used = usedNow, newest = newest, version = version,
  state = (ask.version ~= version and not isStored) and call("HGET", PREFIX, "state") or cjson.null,
  isStored = isStored,
})
