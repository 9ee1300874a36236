-- Shared by the scripts that store events. Prepended to them (script.ts).
local base = ARGV[1]
local call = redis.call
local format = string.format

-- The body in an event's row; nil when it has a key of its own.
local function body_in(row)
  local line = string.find(row, '\n', 11, true)
  return line and string.sub(row, line + 1)
end

-- Counts a duplicate. Returns 1 if its body differs from the stored one.
local function note_duplicate(seq, stored, body)
  call('HINCRBY', base .. 'dups', seq, 1)
  if stored == body then return 0 end
  call('HINCRBY', base .. 'conflicts', seq, 1)
  return 1
end

-- The seqs of a batch are consecutive: set 32 bits at a time.
local function mark_live(from, last)
  while from <= last do
    local chunk = math.floor(from / 65536)
    local to = math.min(last, chunk * 65536 + 65535)
    local bits = {}
    while from <= to do
      local width = math.min(32, to - from + 1)
      local n = #bits
      bits[n + 1], bits[n + 2], bits[n + 3], bits[n + 4] = 'SET', 'u' .. width, from % 65536, format('%d', 2 ^ width - 1)
      from = from + width
    end
    call('BITFIELD', base .. 'live:' .. chunk, unpack(bits))
  end
end

-- Secret usage by `<source>:<secret>`: events, duplicates, and when (unix ms) the first and the last came.
local function write_usage(usages)
  local key = base .. 'usage'
  for name, sum in pairs(usages) do
    if sum.events > 0 then call('HINCRBY', key, name .. ':events', sum.events) end
    if sum.duplicates > 0 then call('HINCRBY', key, name .. ':duplicates', sum.duplicates) end
    if sum.events + sum.duplicates > 0 then
      local had = call('HMGET', key, name .. ':first', name .. ':last')
      if not had[1] or sum.first < tonumber(had[1]) then call('HSET', key, name .. ':first', format('%d', sum.first)) end
      if not had[2] or sum.last > tonumber(had[2]) then call('HSET', key, name .. ':last', format('%d', sum.last)) end
    end
  end
end

-- Changes of the history (history.ts): by the end of a key, `<series>:<minute>`, and by field.
local counts = {}
local function count(tail, field, n)
  local fields = counts[tail]
  if not fields then
    fields = {}
    counts[tail] = fields
  end
  fields[field] = (fields[field] or 0) + n
end

-- Error codes of an hour that are counted by name; foreign text must not fill Redis.
local most_codes = 200
local function code_of(hour, code)
  local codes = base .. 'codes:' .. hour
  if call('SISMEMBER', codes, code) == 1 then return code end
  local known = call('SCARD', codes)
  if known >= most_codes then return 'other' end
  call('SADD', codes, code)
  if known == 0 then call('PEXPIRE', codes, 172800000) end
  return code
end

-- An hour is listed in `minutes` until it is rolled up. A later change of an old event lists it again.
local function write_counts()
  for tail, fields in pairs(counts) do
    local series, minute = string.match(tail, '^(%a+):(%d+)$')
    local hour = format('%d', math.floor(tonumber(minute) / 60))
    local is_new = false
    for field, n in pairs(fields) do
      if n ~= 0 then
        if series == 'failures' then field = code_of(hour, field) end
        if call('HINCRBY', base .. 'hm:' .. tail, field, n) == n then is_new = true end
      end
    end
    if is_new and tonumber(hour) < tonumber(call('GET', base .. 'forgotten') or '0') then
      -- Its other counts are deleted (roll-up.lua).
      call('DEL', base .. 'hm:' .. tail)
    elseif is_new then
      call('ZADD', base .. 'minutes:' .. series, hour, hour)
    end
  end
end
