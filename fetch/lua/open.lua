-- open names a waiting list, as the first command of each connection that
-- moves jobs into it: Redis may have fallen back since the last one.
--
-- KEYS[1]  in-progress index
-- ARGV[1]  its generation, ARGV[2] field of the list, ARGV[3] queue
--
-- Errors: MISSING, FENCED and STALE as in enter.

redis.call('HDEL', KEYS[1], '') -- see enter
local mark = redis.call('HGET', KEYS[1], '!')
if not mark then return redis.error_reply('MISSING ' .. KEYS[1]) end
local gen = string.match(mark, '^(%d+) %d+$')
if not gen then return redis.error_reply('FENCED ' .. mark) end
if gen ~= ARGV[1] then return redis.error_reply('STALE ' .. mark .. ', expected ' .. ARGV[1]) end
local t = redis.call('TIME')
redis.call('HSETNX', KEYS[1], ARGV[2], ARGV[3] .. ' ' .. string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000)))
return 1
