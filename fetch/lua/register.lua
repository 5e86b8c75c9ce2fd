-- register: makes a fetcher known, so that its private place is found when it dies.
--
-- KEYS[1]  registry (hash: fetcher id -> JSON array of queue names)
-- KEYS[2]  index of leases (zset: fetcher id, expiry in ms)
-- KEYS[3]  lease of the fetcher
-- KEYS[4]  tombstone of the fetcher
-- ARGV[1]  fetcher id
-- ARGV[2]  queue names as a JSON array
-- ARGV[3]  generation
-- ARGV[4]  time to live of the lease, ms
--
-- Returns 1. May be repeated. Error FENCED when the id has a tombstone, LATE to one that
-- comes late: a repetition that lay in a socket while the fetcher went on. It must not
-- bring back a generation that was given up: what else lies in sockets would be obeyed again, and what
-- that took, known to nobody. So the generation never goes down, and one whose lease is over
-- while the registry has it does not get another here: it resumes, or begins anew.
--
-- One script, since a rescuer between two commands would remove half of it; the
-- index first, since an entry that no rescuer finds is worse than an empty one.

if redis.call('EXISTS', KEYS[4]) == 1 then
  return redis.error_reply('FENCED ' .. ARGV[1] .. ' has a tombstone')
end
local held = redis.call('GET', KEYS[3])
if held and (tonumber(held) or 0) > tonumber(ARGV[3]) or not held and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return redis.error_reply('LATE ' .. ARGV[1] .. ' was registered before, the lease holds ' .. tostring(held))
end
redis.call('PERSIST', KEYS[2]) -- see room in take.lua
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[1])
redis.call('SET', KEYS[3], ARGV[3], 'PX', ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
