-- lock takes or extends the lock of the one rescuer that works.
--
-- KEYS[1]  lock
-- ARGV[1]  token, ARGV[2] ms
--
-- Returns 1 if it is ours.

redis.pcall('HDEL', KEYS[1], '') -- see enter; the lock is a string, so this does nothing
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
