-- look: lists fetchers whose lease should have run out by Redis's clock.
--
-- KEYS[1]  index of leases
-- KEYS[2]  registry
-- KEYS[3]  set of the queues that may have a lap; not on a cluster
-- ARGV[1]  how many of them to skip
-- ARGV[2]  how many to list at most
--
-- Returns {now in ms, the nearest expiry after it or "", "1" if that set exists or "",
-- (fetcher id, queue names as JSON or "" when it is not registered)*}. Changes nothing.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local text = string.format('%d', now)
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', text, 'LIMIT', ARGV[1], ARGV[2])
local nearest = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. text, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
local laps = KEYS[3] and redis.call('EXISTS', KEYS[3]) == 1
local out = {text, nearest[2] or '', laps and '1' or ''}
for _, id in ipairs(ids) do
  out[#out + 1] = id
  out[#out + 1] = redis.call('HGET', KEYS[2], id) or ''
end
return out
