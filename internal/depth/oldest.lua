-- Returns the oldest job of a queue, of a long one only both ends. It writes nothing.
--
-- KEYS    1 the queue
-- ARGV    1 bytes of a job that are long, 2 bytes of an end
local job = redis.call('LINDEX', KEYS[1], -1)
if job and #job > tonumber(ARGV[1]) then
  return string.sub(job, 1, ARGV[2]) .. ' ' .. string.sub(job, -ARGV[2])
end
return job
