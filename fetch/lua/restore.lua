-- restore: writes units that Redis has forgotten back into the private place.
--
-- KEYS[1]  lease of the fetcher
-- KEYS[2]  hash of what it has in progress from one queue
-- ARGV[1]  generation that the lease must hold
-- ARGV[2]  time to live of the lease, ms
-- ARGV[3..] (receipt, job)*, at most 500 pairs
--
-- Returns 1. Error FENCED as in take. May be repeated.

local lease = redis.call('GETEX', KEYS[1], 'PX', ARGV[2])
if lease ~= ARGV[1] then
  return redis.error_reply('FENCED the lease holds ' .. tostring(lease) .. ', expected ' .. ARGV[1])
end
redis.call('HSET', KEYS[2], unpack(ARGV, 3))
return 1
