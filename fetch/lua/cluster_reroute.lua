-- cluster_reroute: moves units of a fenced fetcher out of its private place of one
-- queue, as far as their way is within the slot.
--
-- KEYS[1]  hash of what it had in progress from the queue; field ! is the fence
-- KEYS[2]  the queue
-- KEYS[3]  its suspects
-- KEYS[4]  zset: job -> ms of its last recovery
-- KEYS[5]  hash: job -> its recoveries
-- ARGV[1]  time of this recovery, ms
-- ARGV[2]  time to live of what is known of recoveries, ms
-- ARGV[3]  how long the empty hash stays shut, ms
-- ARGV[4..] at most 500 units of six: receipt; where to (2 the queue, 3 its suspects,
--          0 nowhere: its destination in another slot has it); "1" to write the bytes
--          of the hash, else ""; the bytes; the job as it is counted, or ""; its
--          recoveries, "" to forget it. The last is popped next.
--
-- Returns per unit 1 (moved), 0 (it is gone already: two rescuers at once do no
-- harm) or an error text; then it is still in the hash. Error NOTFENCED when the
-- place is not shut.

local call, pcall = redis.call, redis.pcall
local wip = KEYS[1]

local fence = call('HGET', wip, '!')
if not fence or string.sub(fence, 1, 4) ~= 'dead' then
  return redis.error_reply('NOTFENCED ' .. wip .. ' is not shut')
end
call('PERSIST', wip) -- see room in take.lua

local out = {}
for at = 4, #ARGV, 6 do
  local receipt, where, job = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 4]
  local held, err = call('HGET', wip, receipt), nil
  if held and where > 0 then -- the destination first
    local r = pcall('RPUSH', KEYS[where], ARGV[at + 2] == '1' and held or ARGV[at + 3])
    err = type(r) == 'table' and r.err
  end
  if not held then
    out[#out + 1] = 0
  elseif err then
    out[#out + 1] = err
  else
    call('HDEL', wip, receipt)
    out[#out + 1] = 1
    -- What follows is worth less than the job: it must not undo the answer.
    if job ~= '' and ARGV[at + 5] == '' then
      pcall('ZREM', KEYS[4], job)
      pcall('HDEL', KEYS[5], job)
    elseif job ~= '' then
      pcall('ZADD', KEYS[4], ARGV[1], job)
      pcall('HSET', KEYS[5], job, ARGV[at + 5])
    end
  end
end
pcall('PEXPIRE', KEYS[4], ARGV[2])
pcall('PEXPIRE', KEYS[5], ARGV[2])
if call('HLEN', wip) == 1 then call('PEXPIRE', wip, ARGV[3]) end
return out
