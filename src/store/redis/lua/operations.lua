-- Operations of a step, by name. Each takes a list of arguments. Prepended to commit.lua (script.ts).
local operations = {}

-- The body in an event's row, with its newline.
local function body_part(row)
  local line = row and string.find(row, '\n', 11, true)
  return line and string.sub(row, line) or ''
end

-- Replaces an event's row and keeps the body in it.
function operations.rewrite(a)
  put(a[1], a[2] .. body_part(get(a[1])))
  return ''
end

-- Runs any Redis command.
function operations.call(arguments)
  flush()
  return call(unpack(arguments))
end

-- The same for an event that is being accepted: `@seq@` stands for its seq.
function operations.call_with_seq(arguments, seq)
  for n = 1, #arguments do arguments[n] = string.gsub(arguments[n], '@seq@', seq) end
  return operations.call(arguments)
end

-- Adds a new number to lists by number: `list[first]` and all after it.
local function list_number(number, list, first)
  for n = first, #list do call('ZADD', base .. list[n], number, number) end
end

-- Appends a member with a new number, unless it has one. The other arguments are lists of that number.
function operations.number(a)
  if call('ZSCORE', a[1], a[2]) then return '' end
  local number = next_number()
  call('ZADD', a[1], number, a[2])
  list_number(number, a, 3)
  return ''
end

-- Moves a member to another list with its number. The other arguments are lists of a new number.
function operations.move(a)
  local number = call('ZSCORE', a[1], a[3])
  if number then
    call('ZREM', a[1], a[3])
  else
    number = next_number()
    list_number(number, a, 4)
  end
  call('ZADD', a[2], 'NX', number, a[3])
  return ''
end

-- Adds a subject to further lists, with its number in the first.
function operations.index(a)
  local number = call('ZSCORE', a[1], a[2])
  for n = 3, #a do call('ZADD', a[n], number, a[2]) end
  return ''
end

-- Adds an event that is being accepted to lists by seq.
function operations.list_seq(a, seq)
  list_number(seq, a, 1)
  return ''
end

-- Lists a cursor by when it moved: name, unix ms, most cursors. Deletes others that have not moved for longest.
function operations.list_cursor(a)
  flush()
  local names = base .. 'cursors'
  call('ZADD', names, a[2], a[1])
  local over = call('ZCARD', names) - tonumber(a[3])
  if over <= 0 then return '' end
  for _, name in ipairs(call('ZRANGE', names, 0, over)) do
    if over > 0 and name ~= a[1] then
      call('DEL', base .. 'cursor:' .. name)
      call('ZREM', names, name)
      over = over - 1
    end
  end
  return ''
end

-- Changes the history: the end of a key, a field and a number each.
function operations.count(a)
  for n = 1, #a, 3 do count(a[n], a[n + 1], tonumber(a[n + 2])) end
  return ''
end

-- Expires parked events, except those that changed meanwhile or are being released: seq, version, next row, subject,
-- received at, '1' if it becomes ignored, and where the history counts it: end of the key, fields before and after. Returns
-- their number.
function operations.expire(a)
  local gone, ignored = {}, {}
  for n = 1, #a, 9 do
    local seq, key = a[n], base .. 'e:' .. a[n]
    local row = get(key)
    local released = a[n + 3] ~= '' and call('ZSCORE', base .. 'releasing', a[n + 3])
    if row and not released and string.sub(row, 1, 10) == a[n + 1] then
      put(key, a[n + 2] .. body_part(row))
      gone[#gone + 1] = padded(seq)
      if a[n + 3] ~= '' then call('ZREM', base .. 'pk:' .. a[n + 3], seq) end
      count(a[n + 6], a[n + 7], -1)
      count(a[n + 6], a[n + 8], 1)
      if a[n + 5] == '1' then
        ignored[#ignored + 1] = a[n + 4]
        ignored[#ignored + 1] = seq
      end
    end
  end
  call_over('ZREM', base .. 'parked', gone)
  call_over('ZADD', base .. 'ignored', ignored)
  return #gone
end
