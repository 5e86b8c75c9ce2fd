-- debounce: pushes a job for later, in the place of the one that waits under the same key.
--
-- KEYS[1]  schedule set
-- KEYS[2]  what was pushed under the key last: a hash of push, jid, first (when the first push was), job
-- ARGV     1 number of the push, 2 jid, 3 now, s, 4 score, 5 how long after the first push the job is
--          due at the latest, s; 0 if there is no such time, 6 text before the jid, 7 text behind it,
--          8 how long beyond its time the job is remembered, ms
--
-- Returns the jid of the job, which is that of the first push. A push that is sent again does nothing again.
--
-- The member of a job that was promoted or deleted is gone: then this push is the first one. Out of memory Redis refuses
-- the first write, which removes nothing.

local was = redis.call('HMGET', KEYS[2], 'push', 'jid', 'first', 'job')
if was[1] == ARGV[1] then return was[2] end
local jid, first, score = ARGV[2], ARGV[3], ARGV[4]
local waits = was[4] and redis.call('ZSCORE', KEYS[1], was[4])
if waits then jid, first = was[2], was[3] end
local latest = tonumber(first) + tonumber(ARGV[5])
if ARGV[5] ~= '0' and latest < tonumber(score) then score = string.format('%.6f', latest) end
local job = ARGV[6] .. jid .. ARGV[7]
redis.call('ZADD', KEYS[1], score, job)
if waits and was[4] ~= job then redis.call('ZREM', KEYS[1], was[4]) end
redis.call('HSET', KEYS[2], 'push', ARGV[1], 'jid', jid, 'first', first, 'job', job)
local left = math.max(0, tonumber(score) - tonumber(ARGV[3]))
redis.call('PEXPIRE', KEYS[2], string.format('%.0f', left * 1000 + tonumber(ARGV[8])))
redis.pcall('PUBLISH', 'troupe:wakeup', '1')
return jid
