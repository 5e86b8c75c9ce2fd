-- unsuspect puts suspects of a queue back into the queue, the newest first: the oldest is
-- the next to be popped.
--
-- KEYS[1]  suspects, KEYS[2] queue
-- ARGV[1]  how many at most
--
-- Returns {how many went back, how many are left}. Errors: what the keys say.

redis.pcall('HDEL', KEYS[1], '') -- see enter; the key is a list, so this does nothing
local moved = 0
for _ = 1, tonumber(ARGV[1]) do
  local job = redis.pcall('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
  if type(job) == 'table' and job.err then return job end
  if not job then break end
  moved = moved + 1
end
return {moved, redis.call('LLEN', KEYS[1])}
