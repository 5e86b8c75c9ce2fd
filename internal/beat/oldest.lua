-- Returns the oldest job of a queue, of a long one only both ends. It writes nothing.
--
-- KEYS    1 the queue
-- ARGV    1 bytes of a job that are long, 2 bytes of an end
local job = redis.call('LINDEX', KEYS[1], -1)
local long, size = tonumber(ARGV[1]), tonumber(ARGV[2])
if job and #job > long then
  return string.sub(job, 1, size) .. ' ' .. string.sub(job, -size)
end
return job
