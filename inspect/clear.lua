-- Deletes a page of a queue, from its oldest job on, or of a sorted set, from its lowest score on: up to the
-- first job that may have a lock, be in a batch, or be waited for. Those of the page are returned, and stay. A queue that is
-- empty then is taken off the list of queues. It deletes only, so a Redis that is full carries it out.
--
-- KEYS    1 the list or set, 2 queues; none of a set, and on a cluster
-- ARGV    1 "tail" of a list, or "set", 2 how many jobs are looked at, 3 bytes after which the page ends,
--         4 name of the queue
-- returns how many were deleted, and the jobs that stay
local list, most, budget = ARGV[1] == 'tail', tonumber(ARGV[2]), tonumber(ARGV[3])
local at, step, bytes, clean, out = 0, 1, 0, 0, {''}
while at < most and bytes <= budget do
  local n, got = math.min(step, most - at), nil
  if list then
    got = redis.call('LRANGE', KEYS[1], -at - n, -at - 1)
  else
    got = redis.call('ZRANGE', KEYS[1], at, at + n - 1)
  end
  for i = 1, #got do
    local job = got[list and #got + 1 - i or i]
    bytes = bytes + #job
    if string.find(job, '"t_lock"', 1, true) or string.find(job, '"t_batch"', 1, true) or string.find(job, '"t_result"', 1, true) then
      out[#out + 1] = job
    elseif #out == 1 then
      clean = clean + 1
    end
  end
  if #got < n then break end
  at, step = at + n, 2 * step
end
if clean > 0 and list then
  redis.call('LTRIM', KEYS[1], 0, -clean - 1)
elseif clean > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, clean - 1)
end
if KEYS[2] and redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[4]) end
out[1] = tostring(clean)
return out
