-- put writes to a destination in a slot of its own: the first step of what leaves the slot of
-- its queue on a cluster. Behind bound.
--
-- KEYS[1]  a sorted set, a queue or the set of all queues
-- ARGV[1]  'ZADD', 'LPUSH' or 'SADD'
-- ARGV[2]  what is written; ARGV[3] its score, ARGV[4] trim as in settle, both for ZADD

redis.pcall('HDEL', KEYS[1], '') -- see enter; whatever the type of the key is
if ARGV[1] ~= 'ZADD' then return redis.call(ARGV[1], KEYS[1], ARGV[2]) end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[2])
bound(KEYS[1], ARGV[4])
return 1
