-- look lists the owners whose entry in the index is over.
--
-- KEYS[1]  index of expiries
-- ARGV[1]  how many at most, the oldest first
--
-- Returns {now in ms, the end of the next one in ms or '', id*}.

local call = redis.call
local t = call('TIME')
local now = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000))
local due = call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
local after = {}
if #due < tonumber(ARGV[1]) then after = call('ZRANGE', KEYS[1], #due, #due, 'WITHSCORES') end
return {now, after[2] or '', unpack(due)}
