-- Takes, renews or gives up the one seat of a cluster's watcher.
-- KEYS    1 the seat
-- ARGV    1 identity, 2 lease in ms, 0 to give it up
-- returns 1 when it is mine
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
