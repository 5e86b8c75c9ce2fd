-- look lists the entries of the index of expiries that come first.
--
-- KEYS[1]  index: id -> end of its lease in ms of the clock of this server
-- ARGV[1]  how many at most
--
-- Returns {now in ms, (id, ms)*}.

local t = redis.call('TIME')
local out = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
table.insert(out, 1, string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000)))
return out
