-- cluster_shut: shuts a dead fetcher out of its private place of one queue.
--
-- KEYS[1]  hash of what it has in progress from the queue; field ! is the fence
-- ARGV[1]  how long an empty one stays shut, ms
--
-- Returns the number of units in it; -2 stands for a key of the wrong type. From
-- here on only rescuers touch it. It expires only while it has no units.

redis.call('PERSIST', KEYS[1]) -- see room in take.lua
local n = redis.pcall('HSET', KEYS[1], '!', 'dead')
if type(n) == 'table' then return -2 end
n = redis.call('HLEN', KEYS[1]) - 1
if n == 0 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return n
