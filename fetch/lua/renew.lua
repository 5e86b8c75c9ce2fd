-- renew extends a lease, and makes it again if it has run out.
--
-- KEYS[1]  lease
-- KEYS[2]  expiries
-- KEYS[3]  registry of owners
-- ARGV[1]  id of the owner
-- ARGV[2]  lease in ms
-- ARGV[3]  what the registry says of it
--
-- Returns {1 if the lease was there, else 0; how many of the expiries have expired}.

redis.call('ZREM', KEYS[2], '') -- see enter
local there = redis.call('EXISTS', KEYS[1])
redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[2], string.format('%d', now + ARGV[2]), ARGV[1])
return {there, redis.call('ZCOUNT', KEYS[2], '-inf', string.format('%d', now))}
