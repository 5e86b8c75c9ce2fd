-- index: adds registered fetchers that are missing from the index of leases.
--
-- KEYS[1]  index of leases
-- ARGV     fetcher ids
--
-- Returns how many were missing. They count as expired; the next look at their
-- lease corrects that.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local added = 0
for _, id in ipairs(ARGV) do
  added = added + redis.call('ZADD', KEYS[1], 'NX', now, id)
end
return added
