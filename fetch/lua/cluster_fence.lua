-- cluster_fence: takes a dead fetcher out of the registry, for ever.
--
-- KEYS[1]  registry
-- KEYS[2]  index of leases
-- KEYS[3]  lease of the fetcher
-- KEYS[4]  its tombstone
-- ARGV[1]  fetcher id
-- ARGV[2]  how long the tombstone stands, ms
--
-- Returns 0 when the lease lives (the index is corrected), else 1.
--
-- The id stays in the index until its private places are shut and empty, and
-- the tombstone names the queues: a rescue that breaks off is found and finished
-- by the next rescuer.

local call = redis.call
call('PERSIST', KEYS[2]) -- see room in take.lua
local left = call('PTTL', KEYS[3])
if left ~= -2 then
  if left == -1 then left = 60000 end
  local t = call('TIME')
  call('ZADD', KEYS[2], 'XX', t[1] * 1000 + math.floor(t[2] / 1000) + left, ARGV[1])
  return 0
end
local names = call('HGET', KEYS[1], ARGV[1])
if names then
  call('SET', KEYS[4], names, 'PX', ARGV[2])
  call('HDEL', KEYS[1], ARGV[1])
end
return 1
