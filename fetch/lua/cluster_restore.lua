-- cluster_restore: writes units that a node has forgotten back into the private
-- place.
--
-- KEYS[1]  hash of what the fetcher has in progress from one queue
-- ARGV[1]  generation that the fence must hold
-- ARGV[2..] (receipt, job)*, at most 500 pairs
--
-- Returns {"1"}. Error FENCED as in cluster_take. May be repeated.

local fence = redis.call('HGET', KEYS[1], '!')
if fence ~= ARGV[1] then
  return redis.error_reply('FENCED the fence holds ' .. tostring(fence) .. ', expected ' .. ARGV[1])
end
redis.call('PERSIST', KEYS[1]) -- see room in take.lua
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return {'1'}
