-- aside counts a try to read a job that did not come, since it is larger than the link
-- carries. It goes back to its queue twice and then to the dead set, without leaving
-- the server. Behind enter.
--
-- KEYS[2]  list, KEYS[3] its queue, KEYS[4] dead set ('' where it is in another slot: the
--          place itself; then the job goes back to its queue each time)
-- KEYS[5]  hash of the tries by length and end of the job
-- ARGV[3]  field; ARGV[4] index of the job from the right end, negative
-- ARGV[5]  now in seconds, the score of the dead
--
-- Returns {'queue'} or {'dead'}, or {''} when it is gone.

local job = call('LINDEX', KEYS[2], ARGV[4])
if not job then
  confirm(top)
  return {''}
end
local name = #job .. ' ' .. redis.sha1hex(job)
local tries = call('HINCRBY', KEYS[5], name, 1)
call('PEXPIRE', KEYS[5], 86400000)
local to = 'queue'
if tries > 2 and KEYS[4] ~= place then
  call('ZADD', KEYS[4], ARGV[5], job)
  call('HDEL', KEYS[5], name)
  to = 'dead'
else
  call('RPUSH', KEYS[3], job)
end
call('LREM', KEYS[2], -1, job)
dropped(KEYS[2], ARGV[3])
confirm(top)
return {to}
