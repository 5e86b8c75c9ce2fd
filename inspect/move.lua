-- Moves a job out of a queue, into another one or into dead, if it is still there: the
-- destination first, since Redis keeps what a failed script has done.
--
-- KEYS    1 the list, 2 the other list and 3 queues, or 2 dead
-- ARGV    1 the job, 2 the bytes that the destination gets, of a list 3 its name; of dead 3 the
--         score, 4 its trim, see bound
-- returns 1 if it was there, else 0
if not redis.call('LPOS', KEYS[1], ARGV[1]) then return 0 end
if KEYS[3] then
  redis.call('LPUSH', KEYS[2], ARGV[2])
  redis.pcall('SADD', KEYS[3], ARGV[3]) -- a list for people: the job moves even if that is broken
else
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])
end
redis.call('LREM', KEYS[1], -1, ARGV[1])
if not KEYS[3] then
  bound(KEYS[2], ARGV[4])
end
return 1
