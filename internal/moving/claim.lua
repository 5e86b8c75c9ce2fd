-- Takes members out of a sorted set for a mover.
-- KEYS    1 the set, 2 the set of claimed members, by deadline in ms
-- ARGV    1 how long the mover has, ms, 2.. members
-- returns per member its score, "" when it was not there
local t = redis.call('TIME')
local deadline = t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[1]
local out = {}
for i = 2, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  out[i - 1] = score or ''
  if score then
    redis.call('ZADD', KEYS[2], deadline, ARGV[i])
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return out
