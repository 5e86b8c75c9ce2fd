-- unique: pushes unique jobs, each together with its lock.
--
-- KEYS[1]   set of all queues
-- KEYS[2]   schedule set
-- KEYS[3]   hash of the locks that have refused jobs
-- KEYS[4..] locks and queues
-- ARGV      per job: number of the key of its lock; its jid; how long the lock lives, ms; number of the
--           key of its queue, '' for the schedule set; name of the queue; score; text; '1' if its lock ends with it: such
--           a lock that refuses it is noted
--
-- Returns a text per job: '', 'a' if its own jid holds the lock, so that it was pushed before, 'd' and the jid of who
-- holds the lock, or 'e' and an error.
--
-- Out of memory Redis refuses the first write that needs room, which is a lock or a job: what was not begun is
-- not done.

local out = {}
for at = 1, #ARGV, 8 do
  local lock, queue, said, taken = KEYS[tonumber(ARGV[at])], KEYS[tonumber(ARGV[at + 3])], '', false
  local r = redis.pcall('SET', lock, ARGV[at + 1], 'NX', 'PX', ARGV[at + 2])
  taken = type(r) == 'table' and not r.err
  if not taken then
    local holder = redis.pcall('GET', lock)
    if type(r) == 'table' or type(holder) ~= 'string' then
      said = 'e' .. lock .. ': ' .. (type(r) == 'table' and r.err or holder and holder.err or 'it is gone')
    elseif holder == ARGV[at + 1] then
      said = 'a'
    else
      said = 'd' .. holder
      if ARGV[at + 7] ~= '' and redis.pcall('HLEN', KEYS[3]) ~= 10000 then redis.pcall('HSET', KEYS[3], lock, holder) end
    end
  end
  if said == '' then
    if queue then
      r = redis.pcall('SADD', KEYS[1], ARGV[at + 4])
      if type(r) ~= 'table' then r = redis.pcall('LPUSH', queue, ARGV[at + 6]) end
    else
      r = redis.pcall('ZADD', KEYS[2], ARGV[at + 5], ARGV[at + 6])
      if type(r) ~= 'table' then redis.pcall('PUBLISH', 'troupe:wakeup', '1') end
    end
    if type(r) == 'table' and r.err then
      said = 'e' .. r.err
      redis.pcall('DEL', lock)
    end
  end
  out[#out + 1] = said
end
return out
