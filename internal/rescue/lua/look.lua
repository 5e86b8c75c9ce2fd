-- look lists the owners whose entry in the expiries is over.
--
-- KEYS[1]  expiries, KEYS[2] registry of owners
-- ARGV[1]  how many at most, the oldest first; ARGV[2] how many of them to pass over
--
-- Returns {now in ms, the end of the next one in ms or '', how many more the registry has
-- than the expiries, id*}.

local call = redis.call
local t = call('TIME')
local now = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000))
local due = call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', ARGV[2], ARGV[1])
local at, after = ARGV[2] + #due, {}
if #due < tonumber(ARGV[1]) then after = call('ZRANGE', KEYS[1], at, at, 'WITHSCORES') end
local lacking = redis.pcall('HLEN', KEYS[2])
if type(lacking) ~= 'number' then lacking = 0 end
return {now, after[2] or '', string.format('%d', lacking - call('ZCARD', KEYS[1])), unpack(due)}
