-- Ends the way of members that a mover had claimed. One that is not claimed any
-- more has gone back after the deadline: it is not touched.
-- KEYS    1 the set, 2 the set of claimed members
-- ARGV    1 n, then n members that have arrived, then (score, member)* to put back
-- returns 1
local n = tonumber(ARGV[1])
for i = n + 2, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[2], ARGV[i + 1]) then
    redis.call('ZADD', KEYS[1], ARGV[i], ARGV[i + 1])
    redis.call('ZREM', KEYS[2], ARGV[i + 1])
  end
end
for i = 2, n + 1 do redis.call('ZREM', KEYS[2], ARGV[i]) end
return 1
