#!lua flags=no-writes
-- Counts attempts that led to nothing, of deliveries. ARGV: base, then for each delivery its seq, its route and how many
-- attempts were made. Gives a count for each. The answers kept with the attempts, which are large, stay here.
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
