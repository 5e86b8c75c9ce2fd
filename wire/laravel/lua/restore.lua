-- restore writes back what a Redis has forgotten.
--
-- KEYS[1]  list of the fetcher
-- KEYS[2..] per queue: reserved
-- ARGV     number of the last call, seconds to live of KEYS[1], end of the lease; per job: queue, copy

local last = redis.call('LINDEX', KEYS[1], 0)
if last and tonumber(last) >= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
for i = 4, #ARGV, 2 do
  redis.call('ZADD', KEYS[2 + ARGV[i]], 'NX', string.format('%.6f', ARGV[3] + (i - 4) * 5e-7), ARGV[i + 1])
end
redis.call('RPUSH', KEYS[1], ARGV[1])
return redis.call('EXPIRE', KEYS[1], ARGV[2])
