-- putback: puts units of a fenced fetcher back into their queue.
--
-- KEYS[1]  tombstone of the fetcher
-- KEYS[2]  hash of what it had in progress from the queue
-- KEYS[3]  the queue
-- ARGV     receipts, at most 1000, newest first: the oldest is to be popped next
--
-- Returns how many went back; a unit that is gone already is passed over, so
-- two rescuers at once do no harm. Error NOTFENCED without a tombstone.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.error_reply('NOTFENCED ' .. KEYS[1] .. ' does not exist')
end
local jobs, receipts = {}, {}
for j, job in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV))) do
  if job then
    jobs[#jobs + 1] = job
    receipts[#receipts + 1] = ARGV[j]
  end
end
if #jobs == 0 then return 0 end
redis.call('PERSIST', KEYS[3]) -- see room in take.lua
redis.call('RPUSH', KEYS[3], unpack(jobs)) -- on an error the script ends here and nothing has changed
redis.call('HDEL', KEYS[2], unpack(receipts))
return #jobs
