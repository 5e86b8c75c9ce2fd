-- leave: ends the registration of a fetcher that has nothing in progress.
--
-- KEYS[1]  registry
-- KEYS[2]  index of leases
-- KEYS[3]  lease of the fetcher
-- KEYS[4..] hashes of what it has in progress, by queue
-- ARGV[1]  fetcher id
--
-- Returns the number of units in progress: above 0 the registration stays, for
-- a rescuer to find them. -1 when the id is not registered.

if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end
local left = 0
for k = 4, #KEYS do
  local n = redis.pcall('HLEN', KEYS[k])
  if type(n) == 'number' and n > 0 then
    left = left + n
    for _, field in ipairs(parcels(KEYS[k])) do left = left - 1 + (label(redis.call('HGET', KEYS[k], field)) or 1) end
  end
end
if left == 0 then
  redis.call('DEL', KEYS[3])
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
return left
