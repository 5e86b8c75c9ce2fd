-- cluster_leave: removes the private place of one queue if it is empty.
--
-- KEYS[1]  hash of what the fetcher has in progress from the queue
-- ARGV[1]  generation that the fence must hold; with another one it stays
--
-- Returns {number of units in it}. Error FENCED when a rescuer has shut it.

local fence = redis.pcall('HGET', KEYS[1], '!')
if type(fence) == 'table' and fence.err then return {'0'} end
if fence and string.sub(fence, 1, 4) == 'dead' then return redis.error_reply('FENCED a rescuer has shut it') end
local n = redis.call('HLEN', KEYS[1]) - (fence and 1 or 0)
if n == 0 and fence == ARGV[1] then redis.call('DEL', KEYS[1]) end
return {tostring(n)}
