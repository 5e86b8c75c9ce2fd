-- Moves a job out of a queue, into another one or into dead, if it is still there: the
-- destination first, since Redis keeps what a failed script has done. The lock of one that
-- goes into dead is freed.
--
-- KEYS    1 the list, 2 the other list and 3 queues; or 2 dead and 3 its lock, if it has one
-- ARGV    1 the job, 2 the bytes that the destination gets, of a list 3 its name; of dead 3 the
--         score, 4 its trim, see bound, 5 the jid, if it has a lock
-- returns 1 if it was there, else 0
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
local dead = ARGV[4]
if dead then
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
else
  redis.call('LPUSH', KEYS[2], ARGV[2])
  redis.pcall('SADD', KEYS[3], ARGV[3]) -- a list for people: the job moves even if that is broken
end
redis.call('LREM', KEYS[1], -1, ARGV[1])
if dead then
  if KEYS[3] then unlock(KEYS[3], ARGV[5]) end
  bound(KEYS[2], dead)
end
return 1
