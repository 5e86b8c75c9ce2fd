-- reroute moves jobs of a fenced owner to where its recovery policy sends them. Behind bound and batch.
--
-- KEYS[1]  in-progress index, KEYS[2] list
-- KEYS[3]  schedule set (to 2), KEYS[4] dead set (to 3), KEYS[5] set of all queues; the
--          index itself on a cluster, where they lie in other slots
-- KEYS[6]  zset: job -> ms of its last recovery
-- KEYS[7]  hash: job -> its recoveries
-- KEYS[8..] queues
-- ARGV[1]  now in ms: the time of this recovery
-- ARGV[2]  time to live of what is known of recoveries, ms
-- ARGV[3..] at most 100 jobs of nine: the bytes; to, 0 for the end of a queue that is
--          popped next, '' for one that was written elsewhere; number of the key of the
--          queue, or the score; name of the queue if it may be new to the set of all
--          queues, else ''; what is written, '' for the bytes; trim as in settle; the job
--          as it is counted, '' if it is not; its recoveries, '' to forget them; its
--          place in its batch, ID:INDEX, if it is dead now, else ''.
--          The newest first: the last one is popped next.
--
-- Returns per job 1 (moved), 0 (it is gone: another rescuer was faster) or an error text:
-- then it is where it was. Error NOTFENCED.

call('HDEL', KEYS[1], '') -- see enter
local mark = call('HGET', KEYS[1], '!')
if not mark or string.sub(mark, 1, 6) ~= 'fenced' then return redis.error_reply('NOTFENCED ' .. KEYS[1]) end

local function write(at, bytes)
  local to, target = ARGV[at + 1], ARGV[at + 2]
  if to == '' then return nil end
  if to == '2' then return text(pcall('ZADD', KEYS[3], target, bytes)) end
  if to == '3' then return text(pcall('ZADD', KEYS[4], target, bytes)) end
  if ARGV[at + 3] ~= '' then
    local err = text(pcall('SADD', KEYS[5], ARGV[at + 3]))
    if err then return err end
  end
  return text(pcall('RPUSH', KEYS[tonumber(target)], bytes))
end

local out = {}
for at = 3, #ARGV, 9 do
  local bytes, job = ARGV[at], ARGV[at + 6]
  local there = pcall('LPOS', KEYS[2], bytes)
  if text(there) then
    out[#out + 1] = text(there)
  elseif not there then
    out[#out + 1] = 0
  else
    local err = write(at, ARGV[at + 4] == '' and bytes or ARGV[at + 4])
    if err then
      out[#out + 1] = err
    else
      call('LREM', KEYS[2], 1, bytes)
      out[#out + 1] = 1
      -- What follows is worth less than the job: it must not undo the answer.
      local batch, index = place(ARGV[at + 8])
      if batch then count(batch, {index}, 'died', 0) end
      if ARGV[at + 1] == '3' then bound(KEYS[4], ARGV[at + 5]) end
      if job ~= '' and ARGV[at + 7] == '' then
        pcall('ZREM', KEYS[6], job)
        pcall('HDEL', KEYS[7], job)
      elseif job ~= '' then
        pcall('ZADD', KEYS[6], ARGV[1], job)
        pcall('HSET', KEYS[7], job, ARGV[at + 7])
      end
    end
  end
end
pcall('PEXPIRE', KEYS[6], ARGV[2])
pcall('PEXPIRE', KEYS[7], ARGV[2])
return out
