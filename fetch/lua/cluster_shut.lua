-- cluster_shut: shuts a dead fetcher out of its private place of one queue.
--
-- KEYS[1]  hash of what it has in progress from the queue; field ! is the fence
-- ARGV[1]  how long an empty one stays shut, ms
-- ARGV[2]  what the rescuer knows of the fetcher's end
--
-- Returns {number of units in it, the fence}; -2 stands for a key of the wrong
-- type. The fence is "dead", the time in ms and ARGV[2], of whoever came first: so
-- each rescuer makes the same of a unit. From here on only rescuers touch the
-- hash. It expires only while it has no units.

redis.call('PERSIST', KEYS[1]) -- see room in take.lua
local fence = redis.pcall('HGET', KEYS[1], '!')
if type(fence) == 'table' then return {-2, ''} end
if not fence or string.sub(fence, 1, 5) ~= 'dead ' then
  local t = redis.call('TIME')
  fence = string.format('dead %d %s', t[1] * 1000 + math.floor(t[2] / 1000), ARGV[2])
  redis.call('HSET', KEYS[1], '!', fence)
end
local n = redis.call('HLEN', KEYS[1]) - 1
if n == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {n, fence}
