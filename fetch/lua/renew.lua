-- renew: extends the lease and its entry in the index.
--
-- KEYS[1]  registry
-- KEYS[2]  index of leases
-- KEYS[3]  lease of the fetcher
-- ARGV[1]  fetcher id
-- ARGV[2]  generation that the lease must hold
-- ARGV[3]  time to live of the lease, ms
--
-- Returns how many leases of the index are over. Error FENCED when the id is not registered, or the lease has run
-- out or holds another generation: resume finds out which.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return redis.error_reply('FENCED ' .. ARGV[1] .. ' is not registered')
end
local lease = redis.call('GETEX', KEYS[3], 'PX', ARGV[3])
if lease ~= ARGV[2] then
  return redis.error_reply('FENCED the lease holds ' .. tostring(lease) .. ', expected ' .. ARGV[2])
end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
return redis.call('ZCOUNT', KEYS[2], '-inf', string.format('%d', now))
