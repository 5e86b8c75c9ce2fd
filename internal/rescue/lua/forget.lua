-- forget forgets the recoveries of jobs.
--
-- KEYS[1]  zset: job -> ms of its last recovery
-- KEYS[2]  hash: job -> its recoveries
-- ARGV     jobs
--
-- Returns how many were known.

redis.call('HDEL', KEYS[2], unpack(ARGV))
return redis.call('ZREM', KEYS[1], unpack(ARGV))
