#!lua flags=no-writes
-- Counts failed attempts. ARGV: base, then for each delivery its seq, route and number of attempts. Returns a count for each.
-- A script, because the responses stored with the attempts are large.
local base = ARGV[1]
local counts = {}
for n = 2, #ARGV, 3 do
  local key = base .. 'd:' .. ARGV[n] .. ':' .. ARGV[n + 1]
  local failed = 0
  for number = 1, tonumber(ARGV[n + 2]) do
    local kept = redis.call('HGET', key, 'a' .. number)
    if kept then
      -- See event-rows.ts.
      local head = cjson.decode(string.match(kept, '^[^\n]*'))
      local status = head[3]
      if head[4] ~= cjson.null then failed = failed + 1
      elseif status ~= cjson.null and (status < 200 or status > 299) then failed = failed + 1 end
    end
  end
  counts[#counts + 1] = failed
end
return counts
