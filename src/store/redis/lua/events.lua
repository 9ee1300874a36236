-- What the scripts that store events have in common; it stands before their own text (script.ts).
local base = ARGV[1]
local call = redis.call
local format = string.format

-- The body that stands in an event's row; nil when it stands apart.
local function body_in(row)
  local line = string.find(row, '\n', 11, true)
  return line and string.sub(row, line + 1)
end

-- One that came again changes nothing but its count. Gives 1 when it came with other bytes than those stored.
local function note_duplicate(seq, stored, body)
  call('HINCRBY', base .. 'dups', seq, 1)
  if stored == body then return 0 end
  call('HINCRBY', base .. 'conflicts', seq, 1)
  return 1
end

-- Seqs of a batch follow one another: their bits are set 32 at a time.
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

-- What proved events: by `<source>:<secret>` how many and duplicates, and when (unix ms) the first and the last came.
local function write_proofs(proofs)
  local key = base .. 'proofs'
  for proof, sum in pairs(proofs) do
    if sum.events > 0 then call('HINCRBY', key, proof .. ':events', sum.events) end
    if sum.duplicates > 0 then call('HINCRBY', key, proof .. ':duplicates', sum.duplicates) end
    if sum.events + sum.duplicates > 0 then
      local had = call('HMGET', key, proof .. ':first', proof .. ':last')
      if not had[1] or sum.first < tonumber(had[1]) then call('HSET', key, proof .. ':first', format('%d', sum.first)) end
      if not had[2] or sum.last > tonumber(had[2]) then call('HSET', key, proof .. ':last', format('%d', sum.last)) end
    end
  end
end
