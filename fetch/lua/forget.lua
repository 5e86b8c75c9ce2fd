-- forget: takes a rescued fetcher out of the index when nothing is left of it.
--
-- KEYS[1]  index of leases
-- KEYS[2..] hashes of what it had in progress, by queue
-- ARGV[1]  fetcher id
--
-- Returns the number of keys that are left; above 0 the id stays in the index.

local left = 0
for k = 2, #KEYS do left = left + redis.call('EXISTS', KEYS[k]) end
if left == 0 then redis.call('ZREM', KEYS[1], ARGV[1]) end
return left
