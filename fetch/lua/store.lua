-- store writes jobs to where they belong, all or none. Behind bound.
--
-- KEYS[1]  retry set       (to 1)
-- KEYS[2]  schedule set    (to 2)
-- KEYS[3]  dead set        (to 3)
-- KEYS[4]  set of all queues
-- KEYS[5..] queues
-- ARGV     per move five: to, or 0 for the end of a queue that is popped next,
--          4 for the other; score, or the number of the key of the queue; name of
--          the queue to 4; bytes; trim as in settle
--
-- Returns 1. An error when a destination of a move has the wrong type; then nothing was
-- written, or the next try would write the other moves twice.

local used = {}
for at = 1, #ARGV, 5 do
  local to = tonumber(ARGV[at])
  if to == 4 then used[4] = true end
  if to == 0 or to == 4 then to = tonumber(ARGV[at + 1]) end
  used[to] = true
end
for k, key in ipairs(KEYS) do
  local kind = used[k] and redis.call('TYPE', key).ok or 'none'
  if kind ~= 'none' and kind ~= (k > 4 and 'list' or k == 4 and 'set' or 'zset') then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. kind)
  end
end
redis.call('PERSIST', KEYS[1]) -- see enter
for at = 1, #ARGV, 5 do
  local to, bytes = tonumber(ARGV[at]), ARGV[at + 3]
  if to == 0 then
    redis.call('RPUSH', KEYS[tonumber(ARGV[at + 1])], bytes)
  elseif to == 4 then
    redis.call('SADD', KEYS[4], ARGV[at + 2])
    redis.call('LPUSH', KEYS[tonumber(ARGV[at + 1])], bytes)
  else
    redis.call('ZADD', KEYS[to], ARGV[at + 1], bytes)
  end
  if to == 3 then bound(KEYS[3], ARGV[at + 4]) end
end
return 1
