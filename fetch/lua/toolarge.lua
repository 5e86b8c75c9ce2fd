-- toolarge takes a job out of a list that did not come when it was asked for, since it is
-- larger than what the connection carries. It goes back to its queue twice, and then to the dead set,
-- without leaving the server. Behind enter.
--
-- KEYS[2]  list, KEYS[3] its queue
-- KEYS[4]  dead set, or on a cluster a list beside the queue
-- KEYS[5]  hash of the tries by length and digest of the job
-- ARGV[3]  field; ARGV[4] index of the job from the right end, negative
-- ARGV[5]  now in seconds, the score of the dead; '' for a list
-- ARGV[6..] SHA-1 of the jobs that the fetcher has in hand of this list
--
-- Returns {'moved', key}, {'hand', SHA-1} for a job in hand, which stays, or {''} when it
-- is gone.

local job = call('LINDEX', KEYS[2], ARGV[4])
if not job then
  confirm()
  return {''}
end
local digest = redis.sha1hex(job)
for i = 6, #ARGV do
  if ARGV[i] == digest then
    confirm()
    return {'hand', digest}
  end
end
local name, to = #job .. ' ' .. digest, KEYS[3]
local tries = call('HINCRBY', KEYS[5], name, 1)
call('PEXPIRE', KEYS[5], 86400000)
if tries > 2 then
  to = KEYS[4]
  call('HDEL', KEYS[5], name)
end
if to == KEYS[3] then
  call('RPUSH', to, job)
elseif ARGV[5] ~= '' then
  call('ZADD', to, ARGV[5], job)
else
  call('LPUSH', to, job)
end
call('LREM', KEYS[2], -1, job)
dropped(KEYS[2], ARGV[3])
confirm()
return {'moved', to}
