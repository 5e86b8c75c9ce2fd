-- settle moves jobs out of their lists, the destination first. Behind bound, enter, rules and batch.
--
-- KEYS[2]  retry set      (to 1)
-- KEYS[3]  schedule set   (to 2)
-- KEYS[4]  dead set       (to 3)
-- KEYS[5]  set of all queues; KEYS[2..5] are the index itself on a cluster, where
--          these lie in other slots and are not used
-- KEYS[6..] lists and queues
-- ARGV[3..] groups of moves from one list to one destination, each of them:
--          number of the key of the list; its field; its length as the owner knows it if
--          the moves are of its oldest jobs, else ''; the name of a large job that is moved
--          alone, see known: it is not sent itself
--          to, '' if all was written elsewhere; number of the key of the queue (to 0 and 4);
--          name of the queue if it may be new to the set of all queues, else ''; trim as
--          'BEFORE MAX', '' for none
--          '1' if what is written is given, '' if it is the jobs themselves
--          number of moves n, 0 of to 5: these jobs stay
--          what is written (to 1 to 3: n times the score and the text; to 0 and 4: n texts)
--          the n jobs, unless they are what is written
--          Of to 0 the last is popped next, of to 4 the first is popped first.
--          number of effects, each of them: its kind; how many arguments follow; these:
--            push  number of the key of a queue, '' for the schedule set; name of the queue if it may be new
--                  to the set of all queues, else ''; texts, those of the schedule set behind their scores
--            unique number of the key of a lock; jid; ms to live of the lock; number of the key of the queue, '' for the
--                  schedule set; the name as above; number of the key of the hash of the locks that have refused jobs, ''
--                  for none; score; text. The job enters unless another one holds the lock
--            lock  number of the key of the lock of the job that is moved; its jid; ms. If it holds the lock, that is
--                  freed behind the move; with ms it lives so long from now on, and is taken if nobody holds it
--            gem   four keys of a lock of sidekiq-unique-jobs (its hash of holders, its digest, the list of who waits
--                  for it, the set of all digests), jid. That gem's lock is freed behind the move if the job holds it.
--                  They are no KEYS: a user who may not touch them can settle all the same
--            rules BASE, seconds, name, number of rules, these, jids. The jobs leave these limits behind the move; with seconds their
--                  slots live for so long more, and with a name they are of that
--            join  ID of the parent of a batch or '', 'close' or 'open', then as of join of batch.lua: jobs that enter the batch. Behind
--                  the move it is a job of its parent, and may end
--            count ID of a batch, event, time in seconds or 0, indexes of jobs of the batch that are moved. They are counted in it
--                  behind the move
--            breaker BASE, jid, pairs of a rule and what the end of the run tells its breaker, see rules. Behind the move
--            keep  number of the key of a result; ms to live; the result. It is written behind the move, unless Redis is out of
--                  memory, and published on the channel of that name
--            hash  number of the key of a hash; its milliseconds to live; names and values of fields
--          They come first. If one is refused, no push stays and the group is refused.
--
-- Returns ('d', jid) for each unique job that did not enter, ('b', 'RULE WHAT ENDS JID') for each breaker that opened, stays open
-- after a probe ('again') or closed, ('k' and the reason, key) for each result that was not kept, and (number of the group, error text) for each group that was refused: then its jobs
-- are where they were. A job that is not in its list is written all the same: its owner
-- is not fenced and the call is new, so Redis has fallen back. For one that is only named
-- the error is ABSENT: it is to be sent. A refused group of to 5 is the only one of its call, which then
-- is not carried out: the list does not tell what became of it.

local function write(to, queue, known, ...)
  if to == '0' then return pcall('RPUSH', queue, ...) end
  if to ~= '4' then return pcall('ZADD', KEYS[1 + tonumber(to)], ...) end
  local err = known ~= '' and text(pcall('SADD', KEYS[5], known))
  return err and {err = err} or pcall('LPUSH', queue, ...)
end

-- enter carries out the effect that begins at this argument, and returns what refuses it; with back it takes a
-- push back that has been entered.
local out, entered, locked, joined = {}, {}, {}, {}
local function enter(at, back)
  local kind, key, first, last = ARGV[at], tonumber(ARGV[at + 2]), at + 4, at + 1 + tonumber(ARGV[at + 1])
  if kind == 'lock' or kind == 'gem' or kind == 'rules' or kind == 'breaker' or kind == 'count' or kind == 'keep' then
    return
  elseif kind == 'join' then
    local err
    if back then native(joined[at]) else err, joined[at] = join(at + 4, last, true) end
    return err
  elseif kind == 'unique' then
    local queue = tonumber(ARGV[at + 5])
    if back then
      if not entered[at] then return end
      if locked[at] then pcall('DEL', KEYS[key]) end
    else
      local taken = pcall('SET', KEYS[key], ARGV[at + 3], 'NX', 'PX', ARGV[at + 4])
      if text(taken) then return text(taken) end
      local holder = not taken and pcall('GET', KEYS[key]) or ARGV[at + 3]
      if holder ~= ARGV[at + 3] then
        out[#out + 1], out[#out + 2] = 'd', ARGV[at + 3]
        local conflicts = KEYS[tonumber(ARGV[at + 7])]
        if conflicts and not text(holder) and pcall('HLEN', conflicts) ~= 10000 then pcall('HSET', conflicts, KEYS[key], holder) end
        return
      end
      entered[at], locked[at] = true, taken and true or nil
    end
    if not back and queue then
      return text(write('4', KEYS[queue], ARGV[at + 6], ARGV[last]))
    elseif not back then
      return text(write('2', nil, nil, ARGV[last - 1], ARGV[last]))
    elseif queue then
      pcall('LTRIM', KEYS[queue], '1', '-1')
    else
      pcall('ZREM', KEYS[3], ARGV[last])
    end
    return
  end
  if kind == 'hash' then
    if back then return end
    local err = text(pcall('HSET', KEYS[key], unpack(ARGV, first, last)))
    if not err then pcall('PEXPIRE', KEYS[key], ARGV[at + 3]) end
    return err
  elseif not back then
    return text(write(key and '4' or '2', KEYS[key or 1], ARGV[at + 3], unpack(ARGV, first, last)))
  elseif key then
    pcall('LTRIM', KEYS[key], tostring(last - first + 1), '-1')
  else
    for i = first + 1, last, 2 do pcall('ZREM', KEYS[3], ARGV[i]) end
  end
end

local function enterAll(effects)
  for i, at in ipairs(effects) do
    local err = enter(at)
    if err then
      if locked[at] then pcall('DEL', KEYS[tonumber(ARGV[at + 2])]) end
      for k = i - 1, 1, -1 do enter(effects[k], true) end
      return err
    end
  end
end

-- unlock frees the lock of a job that is moved, or moves its end.
local function unlock(at)
  local lock, jid, ms = KEYS[tonumber(ARGV[at + 2])], ARGV[at + 3], ARGV[at + 4]
  local holder = pcall('GET', lock)
  if ms ~= '0' then
    if not holder or holder == jid then pcall('SET', lock, jid, 'PX', ms) end
  elseif holder == jid then
    pcall('DEL', lock)
  end
end

-- keep writes a result, and tells those who wait for it. The job is settled whatever becomes of it.
local function keep(at)
  local key = KEYS[tonumber(ARGV[at + 2])]
  local err = full or text(pcall('SET', key, ARGV[at + 4], 'PX', ARGV[at + 3]))
  if err then out[#out + 1], out[#out + 2] = 'k' .. err, key end
  pcall('PUBLISH', key, ARGV[at + 4])
end

-- release frees a lock of sidekiq-unique-jobs, as that gem does.
local function release(at)
  local locked, digest, waiting, digests = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]
  if pcall('HDEL', locked, ARGV[at + 6]) ~= 1 then return end
  if pcall('HLEN', locked) == 0 then
    pcall('UNLINK', locked)
    pcall('UNLINK', digest)
    pcall('ZREM', digests, digest)
  end
  pcall('LPUSH', waiting, '1')
  pcall('PEXPIRE', waiting, '5000')
end

local at, group, last = 3, 0, #ARGV -- now: a job that is absent leaves a hole, and Lua finds any end before one
while at <= last do
  group = group + 1
  local list, field, length, to = KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local n = tonumber(ARGV[at + 8])
  local first, step, written = at + 9, 1, 0
  if to == '1' or to == '2' or to == '3' then step = 2 end
  if to ~= '' then written = n * step end
  local jobs, err = first + step - 1, nil -- the first of them; the next is step further
  at = first + written
  if to == '' or ARGV[first - 2] == '1' then jobs, step, at = at, 1, at + n end
  if string.find(length, ' ') then
    ARGV[jobs] = known(list, length)
    if not ARGV[jobs] then err = 'ABSENT' end
    length = ''
  end
  local effects = {}
  at = at + 1
  for i = 1, tonumber(ARGV[at - 1]) do
    effects[i] = at -- both at once go wrong in miniredis
    at = at + 2 + tonumber(ARGV[at + 1])
  end
  err = err or enterAll(effects)
  if to == '5' then
    if err then return redis.error_reply('REFUSED ' .. err) end
  elseif to ~= '' and not err then
    err = text(write(to, KEYS[tonumber(ARGV[first - 5]) or 1], ARGV[first - 4], unpack(ARGV, first, first + written - 1)))
  end
  if err then
    out[#out + 1], out[#out + 2] = tostring(group), err
  elseif to ~= '5' then
    if length ~= '' and pcall('LLEN', list) == tonumber(length) then
      pcall('LTRIM', list, '0', tostring(-n - 1))
    else
      for i = jobs, jobs + (n - 1) * step, step do pcall('LREM', list, '-1', ARGV[i]) end
    end
    dropped(list, field)
    if ARGV[first - 3] ~= '' then bound(KEYS[4], ARGV[first - 3]) end
  end
  for _, effect in ipairs(err and {} or effects) do
    if ARGV[effect] == 'lock' then unlock(effect) end
    if ARGV[effect] == 'keep' then keep(effect) end
    if ARGV[effect] == 'gem' then release(effect) end
    if ARGV[effect] == 'breaker' then
      for i = effect + 4, effect + 1 + tonumber(ARGV[effect + 1]), 2 do
        local r = rule(ARGV[effect + 2], ARGV[i])
        local what = learn(r, ARGV[effect + 3], ARGV[i + 1])
        if what then out[#out + 1], out[#out + 2] = 'b', string.format('%s %s %s %s', r.id, what, stamp(r.ends), ARGV[effect + 3]) end
      end
    end
    if ARGV[effect] == 'rules' then
      local jids = effect + 6 + tonumber(ARGV[effect + 5])
      for i = effect + 6, jids - 1 do leave(rule(ARGV[effect + 2], ARGV[i]), jids, effect + 1 + tonumber(ARGV[effect + 1]), tonumber(ARGV[effect + 3]), ARGV[effect + 4]) end
    end
    if ARGV[effect] == 'join' then native(shut, ARGV[effect + 4], ARGV[effect + 2], ARGV[effect + 3] == 'close') end
    if ARGV[effect] == 'count' then native(count, ARGV[effect + 2], {unpack(ARGV, effect + 5, effect + 1 + tonumber(ARGV[effect + 1]))}, ARGV[effect + 3], tonumber(ARGV[effect + 4])) end
  end
end
if #inOrder > 0 then native(left) end
confirm()
return out
