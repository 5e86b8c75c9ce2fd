-- Puts back what movers that died had claimed, due now.
-- KEYS    1 the set, 2 the set of claimed members, by deadline in ms
-- returns how many went back
local t = redis.call('TIME')
local now = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000))
local late = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 1000)
for _, member in ipairs(late) do
  redis.call('ZADD', KEYS[1], 'NX', t[1], member)
  redis.call('ZREM', KEYS[2], member)
end
return #late
