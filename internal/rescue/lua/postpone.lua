-- postpone says in the expiries when an owner is to be looked at, if it is there.
--
-- KEYS[1]  expiries
-- ARGV[1]  id of the owner, ARGV[2] ms from now

redis.call('ZREM', KEYS[1], '') -- see enter
local t = redis.call('TIME')
local at = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[2]
return redis.call('ZADD', KEYS[1], 'XX', string.format('%d', at), ARGV[1])
