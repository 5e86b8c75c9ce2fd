-- reroute: moves units of a fenced fetcher to where their judge sends them.
--
-- KEYS[1]  tombstone of the fetcher
-- KEYS[2]  hash of what it had in progress
-- KEYS[3]  schedule set    (place 2)
-- KEYS[4]  dead set        (place 3)
-- KEYS[5]  set of all queues
-- KEYS[6]  zset: job -> ms of its last recovery
-- KEYS[7]  hash: job -> its recoveries
-- KEYS[8..] queues
-- ARGV[1]  now in ms: the time of this recovery
-- ARGV[2]  time to live of what is known of recoveries, ms
-- ARGV[3..] at most 100 units of ten: receipt; place, 0 for the end of a queue that
--          is popped next; score, or the number of the key of the queue; name of the
--          queue if it may be new to the set of all queues, else ""; "1" to write the
--          bytes of the hash, else ""; the bytes; trim by score and by rank (as in
--          settle); the job as it is counted, ""; its recoveries, "" to forget it.
--          Of those with place 0 the last is popped next.
--
-- Returns per unit 1 (moved), 0 (it is gone already: two rescuers at once do no
-- harm) or an error text; then it is still in the hash. Error NOTFENCED without a
-- tombstone.
--
-- A unit is moved by its receipt: nobody writes to the hash of a fenced fetcher.

local call, pcall = redis.call, redis.pcall

if call('EXISTS', KEYS[1]) == 0 then
  return redis.error_reply('NOTFENCED ' .. KEYS[1] .. ' does not exist')
end
call('PERSIST', KEYS[2]) -- see room in take.lua

local function write(at, bytes)
  local place, target = ARGV[at + 1], ARGV[at + 2]
  if place == '2' then return pcall('ZADD', KEYS[3], target, bytes) end
  if place == '3' then return pcall('ZADD', KEYS[4], target, bytes) end
  if ARGV[at + 3] ~= '' then
    local r = pcall('SADD', KEYS[5], ARGV[at + 3]) -- a name too many does no harm
    if type(r) == 'table' and r.err then return r end
  end
  return pcall('RPUSH', KEYS[tonumber(target)], bytes)
end

local out = {}
for at = 3, #ARGV, 10 do
  local receipt, job = ARGV[at], ARGV[at + 8]
  local held = pcall('HGET', KEYS[2], receipt)
  if type(held) == 'table' then
    out[#out + 1] = held.err
  elseif not held then
    out[#out + 1] = 0
  else
    local r = write(at, ARGV[at + 4] == '1' and held or ARGV[at + 5])
    if type(r) == 'table' and r.err then
      out[#out + 1] = r.err
    else
      call('HDEL', KEYS[2], receipt)
      out[#out + 1] = 1
      -- What follows is worth less than the job: it must not undo the answer.
      if ARGV[at + 1] == '3' then
        if ARGV[at + 6] ~= '' then pcall('ZREMRANGEBYSCORE', KEYS[4], '-inf', ARGV[at + 6]) end
        if ARGV[at + 7] ~= '' then pcall('ZREMRANGEBYRANK', KEYS[4], 0, -tonumber(ARGV[at + 7])) end
      end
      if job ~= '' and ARGV[at + 9] == '' then
        pcall('ZREM', KEYS[6], job)
        pcall('HDEL', KEYS[7], job)
      elseif job ~= '' then
        pcall('ZADD', KEYS[6], ARGV[1], job)
        pcall('HSET', KEYS[7], job, ARGV[at + 9])
      end
    end
  end
end
pcall('PEXPIRE', KEYS[6], ARGV[2])
pcall('PEXPIRE', KEYS[7], ARGV[2])
return out
