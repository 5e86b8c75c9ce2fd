-- finish ends a rescue when the index names no list any more.
--
-- KEYS[1]  in-progress index, KEYS[2] registry of owners
-- ARGV[1]  id of the owner
-- ARGV[2]  ms for which the tombstone stands: a process that was paused for longer takes
--          itself for forgotten, not for fenced
--
-- Returns how many lists are left. Only at 0 the index gets its time to live and, last, the
-- id leaves the registry: a rescue that is broken off is always found.

local call = redis.call
local mark = call('HGET', KEYS[1], '!')
if not mark then
  call('HDEL', KEYS[2], ARGV[1])
  return 0
end
if string.sub(mark, 1, 6) ~= 'fenced' then return redis.error_reply('NOTFENCED ' .. KEYS[1]) end
local left = call('HLEN', KEYS[1]) - 1
if left == 0 then
  call('PEXPIRE', KEYS[1], ARGV[2])
  call('HDEL', KEYS[2], ARGV[1])
end
return left
