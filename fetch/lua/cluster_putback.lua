-- cluster_putback: puts units of a fenced fetcher back into their queue.
--
-- KEYS[1]  the queue
-- KEYS[2]  hash of what it had in progress from the queue; field ! is the fence
-- ARGV[1]  how long the empty hash stays shut, ms
-- ARGV[2..] receipts, at most 1000, newest first: the oldest is to be popped next
--
-- Returns how many went back; a unit that is gone already is passed over, so
-- two rescuers at once do no harm. Error NOTFENCED when the place is not shut.

if redis.call('HGET', KEYS[2], '!') ~= 'dead' then
  return redis.error_reply('NOTFENCED ' .. KEYS[2] .. ' is not shut')
end
local jobs, receipts = {}, {}
for j, job in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, 2))) do
  if job then
    jobs[#jobs + 1] = job
    receipts[#receipts + 1] = ARGV[j + 1]
  end
end
if #jobs > 0 then
  redis.call('PERSIST', KEYS[1]) -- see room in take.lua
  redis.call('RPUSH', KEYS[1], unpack(jobs)) -- on an error the script ends here and nothing has changed
  redis.call('HDEL', KEYS[2], unpack(receipts))
end
if redis.call('HLEN', KEYS[2]) == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
return #jobs
