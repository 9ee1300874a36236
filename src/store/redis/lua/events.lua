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
