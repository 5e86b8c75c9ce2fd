-- Reads a page of a sorted set that begins behind a given place, whatever was
-- added and removed in front of it.
--
-- KEYS    1 the set
-- ARGV    1 "down" (from the highest score) or "up", 2 score of the place,
--         3 "=" and a member that has this score, to begin behind it, or "",
--         4 number of entries
-- returns {member, score, …}; from the first one of the score on if the member
--         is not there (any more)
local down = ARGV[1] == 'down'
local at
if ARGV[3] ~= '' then
  local member = string.sub(ARGV[3], 2)
  local score = redis.call('ZSCORE', KEYS[1], member)
  if score and tonumber(score) == tonumber(ARGV[2]) then
    at = redis.call(down and 'ZREVRANK' or 'ZRANK', KEYS[1], member) + 1
  end
end
if not at then
  if down then
    at = redis.call('ZCOUNT', KEYS[1], '(' .. ARGV[2], '+inf')
  else
    at = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[2])
  end
end
return redis.call(down and 'ZREVRANGE' or 'ZRANGE', KEYS[1], at, at + ARGV[4] - 1, 'WITHSCORES')
