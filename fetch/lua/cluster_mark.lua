-- cluster_mark: writes the generation of a fetcher into its private place of one
-- queue, and tells what calls of an earlier one took.
--
-- KEYS[1]  hash of what it has in progress from the queue; field ! is the fence
-- ARGV[1]  generation
-- ARGV[2..] receipts that failed calls could have made
--
-- Returns {"DEAD"} when a rescuer has shut the place, {"SICK", error text} for a
-- key of the wrong type, else {"OK", or "LOST" when there was no fence, then
-- (receipt, job)*}. Error FENCED to a mark that comes late, when the fence holds a
-- later generation: nothing has changed then.
--
-- The new generation refuses whatever of the old one is still on its way.

local fence = redis.pcall('HGET', KEYS[1], '!')
if type(fence) == 'table' and fence.err then return {'SICK', fence.err} end
if fence and string.sub(fence, 1, 4) == 'dead' then return {'DEAD'} end
if fence and (tonumber(fence) or 0) > tonumber(ARGV[1]) then
  return redis.error_reply('FENCED the fence holds ' .. fence .. ', a later generation than ' .. ARGV[1])
end
redis.call('PERSIST', KEYS[1]) -- see room in take.lua
redis.call('HSET', KEYS[1], '!', ARGV[1])

local out = {fence and 'OK' or 'LOST'}
for first = 2, #ARGV, 1000 do
  local last = math.min(first + 999, #ARGV)
  local jobs = redis.call('HMGET', KEYS[1], unpack(ARGV, first, last))
  for j = 1, last - first + 1 do
    if jobs[j] then
      out[#out + 1] = ARGV[first + j - 1]
      out[#out + 1] = jobs[j]
    end
  end
end
return out
