-- reindex: hands units that belong to no registered fetcher to the rescuers.
--
-- KEYS[1]  registry
-- KEYS[2]  index of leases
-- KEYS[3]  lease of the fetcher
-- KEYS[4]  its tombstone
-- ARGV[1]  fetcher id
-- ARGV[2]  JSON array of the queues from which it has units in progress
-- ARGV[3]  how long the tombstone stands, ms
--
-- Returns 1, or 0 when the fetcher lives, is registered or is being rescued.

if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
if redis.call('EXISTS', KEYS[4]) == 1 and redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
local t = redis.call('TIME')
redis.call('SET', KEYS[4], ARGV[2], 'PX', ARGV[3])
redis.call('ZADD', KEYS[2], t[1] * 1000 + math.floor(t[2] / 1000), ARGV[1])
return 1
