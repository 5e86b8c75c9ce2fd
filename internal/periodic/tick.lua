-- Carries out one tick of a periodic job: it is marked, and its job pushed, once.
--
-- KEYS    1 hash of the periodic job, 2 zset of its marks, 3 list of what it has pushed
--         4 set of queues, 5 list of the queue; on a cluster neither
--         6 lock of its jobs, 7 hash of the locks that have refused jobs; any key, or none, if they may overlap
--         8 zset of the ticks that sidekiq-scheduler has pushed, 9 hash of its states; neither if it has no such entry
-- ARGV    1 status, 2 cron, 3 message, as the caller has read them
--         4 tick in ISO 8601, 5 the same in seconds
--         6 job; "" to mark only, 7 name of the queue
--         8 time of the push for people, 9 line for the list of what was pushed
--         10 what became of the tick, as JSON
--         with a lock: 11 jid of the job (else ""), 12 how long the lock lives, ms, 13 as 10, of a tick that is
--         not pushed, 14 how many locks the hash has at most
--         with sidekiq-scheduler: 15 name of the entry, 16 its state, as the caller has read it
-- returns {what, newest mark, last line of the list}, and on a cluster a fourth value if jobs of
--         other ticks lie in the hash for the same queue; what is
--         "pushed"; "marked"; "overlapped" if another job holds the lock
--         "done" if the tick has its mark, or is so old that its mark may be gone, or sidekiq-scheduler has pushed it
--         "changed" if the job is not what the caller has read
--         "early" if the tick is to come, by the clock of Redis
-- errors  those of Redis, of the queue's list for example: then nothing is done
--
-- The newest mark stays, and so do those of the last hour: Ruby's poller asks only whether its own
-- tick has one. On a cluster the push lies in the hash until the queue has it.
local was = redis.call('HMGET', KEYS[1], 'status', 'cron', 'message')
for i = 1, 3 do
  if (was[i] or '') ~= ARGV[i] then return {'changed', '', ''} end
end
if KEYS[9] and (redis.call('HGET', KEYS[9], ARGV[15]) or '') ~= ARGV[16] then return {'changed', '', ''} end
local newest = redis.call('ZRANGE', KEYS[2], 0, 0, 'REV')[1] or ''
local tick, now = tonumber(ARGV[5]), tonumber(redis.call('TIME')[1])
if redis.call('ZSCORE', KEYS[2], ARGV[4]) or newest >= ARGV[4] and tick < now - 3600 then
  local last = redis.pcall('LINDEX', KEYS[3], 0)
  return {'done', newest, type(last) == 'string' and last or ''}
end
if tick > now then return {'early', newest, ''} end
local what, waits, said, locks = 'marked', nil, ARGV[10], (ARGV[11] or '') ~= ''
if KEYS[8] then
  if redis.call('ZADD', KEYS[8], 'NX', tick, ARGV[5]) == 0 then what = 'done' end
  redis.call('EXPIRE', KEYS[8], 86400)
  redis.call('ZREMRANGEBYSCORE', KEYS[8], 0, now - 86400)
end
if ARGV[6] ~= '' and what == 'marked' and locks and not redis.call('SET', KEYS[6], ARGV[11], 'NX', 'PX', ARGV[12]) then
  local holder = redis.call('GET', KEYS[6])
  if holder and holder ~= ARGV[11] then
    what, said = 'overlapped', ARGV[13]
    if redis.pcall('HLEN', KEYS[7]) ~= tonumber(ARGV[14]) then redis.pcall('HSET', KEYS[7], KEYS[6], holder) end
  end
end
if ARGV[6] ~= '' and what == 'marked' then
  what = 'pushed'
  if KEYS[5] then
    local r = redis.pcall('LPUSH', KEYS[5], ARGV[6])
    if type(r) == 'table' then
      if locks then redis.call('DEL', KEYS[6]) end
      if KEYS[8] then redis.call('ZREM', KEYS[8], ARGV[5]) end
      return r
    end
    redis.pcall('SADD', KEYS[4], ARGV[7])
  else
    local all, to = redis.call('HGETALL', KEYS[1]), ARGV[7] .. '\n'
    for i = 1, #all, 2 do
      if string.sub(all[i], 1, 12) == 'troupe_push:' and string.sub(all[i + 1], 1, #to) == to then waits = 'waits' end
    end
    redis.call('HSET', KEYS[1], 'troupe_push:' .. ARGV[5], ARGV[7] .. '\n' .. ARGV[6])
  end
  redis.call('HSET', KEYS[1], 'last_enqueue_time', ARGV[8])
  redis.pcall('LPUSH', KEYS[3], ARGV[9])
  redis.pcall('LTRIM', KEYS[3], 0, 9)
end
if what ~= 'done' then redis.call('HSET', KEYS[1], 'troupe_last', said) end
redis.call('ZADD', KEYS[2], ARGV[5], ARGV[4])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. math.min(tick, now - 3600))
return {what, ARGV[4] > newest and ARGV[4] or newest, what == 'done' and '' or ARGV[9], waits}
