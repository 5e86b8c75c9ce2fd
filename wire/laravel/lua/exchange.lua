-- exchange settles jobs and takes new ones, once for each number. Behind bound.
--
-- KEYS[1]  list of the fetcher: the number of its last call, and what that returned
-- KEYS[2]  set of failed jobs
-- KEYS[3]  queue of failed jobs for PHP, and KEYS[4] its tokens
-- KEYS[5..] four per queue: ready, delayed, reserved, tokens
-- ARGV     number, "1" if KEYS[1] must be there, its seconds to live, now, end of the lease,
--          how many jobs, how many bytes (the job that reaches them is the last one);
--          number of moves, and per move: kind, queue, copy, text, score, trim;
--          per queue to take from: queue, how many in pass 1, tokens that a wait has taken already,
--          beginning of the row of a job that cannot be run
--
-- Returns per move "m" (done), "n" (not ours) or "!" and an error, and then of each job
--   u queue job at length new pad   the copy that is reserved has `new` in place of `length` bytes
--                                   at `at`, and `pad` spaces behind
--   b queue job                     it cannot be run, and has failed
--   e queue error                   the queue cannot be read

local argument = 0
local function arg()
  argument = argument + 1
  return ARGV[argument]
end

local number = arg()
local last = redis.call('LINDEX', KEYS[1], 0)
if last == number then return redis.call('LRANGE', KEYS[1], 1, -1) end
if last and tonumber(last) > tonumber(number) then return redis.error_reply('LATE a later call was made') end
if arg() == '1' and not last then return redis.error_reply('FORGOT the list of the fetcher is gone') end

-- As a first write it is refused to nobody; after a write Redis refuses none for want of memory.
redis.call('DEL', KEYS[1])

local ttl, now, lease = arg(), arg(), tonumber(arg())
local n, bytes = tonumber(arg()), tonumber(arg())
local out = {}

local function say(...)
  for _, v in ipairs({...}) do out[#out + 1] = tostring(v) end
end

local function key(q, which) return KEYS[5 + 4 * q + which] end

-- add adds a member; one that is there already gets a companion.
local function add(set, score, text)
  while true do
    local added = redis.pcall('ZADD', set, 'NX', score, text)
    if type(added) == 'table' then return nil, added.err end
    if added == 1 then return text end
    text = text .. ' '
  end
end

local function push(command, list, tokens, text)
  local pushed = redis.pcall(command, list, text)
  if type(pushed) == 'table' then return pushed.err end
  redis.pcall('RPUSH', tokens, '1')
end

local function move(kind, q, copy, text, score, trim)
  local reserved = key(q, 2)
  if kind == 'a' then
    local gone = redis.pcall('ZREM', reserved, copy)
    if type(gone) == 'table' then return '!' .. gone.err end
    return gone == 1 and 'm' or 'n'
  end
  local held = redis.pcall('ZSCORE', reserved, copy)
  if type(held) == 'table' then return '!' .. held.err end
  if not held then return 'n' end
  local _, err
  if kind == 'q' then
    err = push('LPUSH', key(q, 0), key(q, 3), text)
  elseif kind == 'b' then
    err = push('RPUSH', key(q, 0), key(q, 3), text)
  elseif kind == 'r' then
    err = push('RPUSH', KEYS[3], KEYS[4], text)
  elseif kind == 'd' then
    _, err = add(key(q, 1), score, text)
  elseif kind == 'f' then
    _, err = add(KEYS[2], score, text)
    if not err then bound(KEYS[2], trim) end
  end
  if err then return '!' .. err end
  redis.call('ZREM', reserved, copy)
  return 'm'
end

for _ = 1, tonumber(arg()) do
  say(move(arg(), tonumber(arg()), arg(), arg(), arg(), arg()))
end

-- migrate makes ready what is due.
local function migrate(q, from)
  local due = redis.pcall('ZRANGEBYSCORE', from, '-inf', now, 'LIMIT', 0, 200)
  if due.err then return say('e', q, due.err) end
  if #due == 0 then return end
  local pushed = redis.pcall('RPUSH', key(q, 0), unpack(due))
  if type(pushed) == 'table' then return say('e', q, pushed.err) end
  redis.call('ZREM', from, unpack(due))
  for i = 1, #due do due[i] = '1' end
  redis.pcall('RPUSH', key(q, 3), unpack(due))
end

-- scan finds the number of the last field "attempts" of the outermost object.
local function scan(job)
  local i, depth, from, to = 1, 0
  while true do
    local at, c = string.match(job, '()(["{}%[%]])', i)
    if not at then return from, to end
    i = at + 1
    if c == '{' or c == '[' then
      depth = depth + 1
    elseif c ~= '"' then
      depth = depth - 1
    else
      local stop = string.find(job, '["\\]', i)
      while string.byte(job, stop) == 92 do stop = string.find(job, '["\\]', stop + 2) end
      if depth == 1 and string.sub(job, at, stop) == '"attempts"' then
        local s, e = string.match(job, '^%s*:%s*()"?[-+%d.eE]+"?()', stop + 1)
        if s then from, to = s, e end
      end
      i = stop + 1
    end
  end
end

-- attempts finds where the number of attempts stands in a job, from `from` and before `to`, and
-- what it is. A job without it cannot be run: Laravel would destroy it.
local function attempts(job)
  local ok, fields = pcall(cjson.decode, job)
  if not ok or type(fields) ~= 'table' or not string.find(job, '^%s*{') then return end
  local made = fields.attempts
  if type(made) ~= 'number' and type(made) ~= 'string' then return end
  made = tonumber(made)
  if not made or made < 0 or made > 1e15 then return end
  -- It is mostly the last field, or the last but one.
  local start = math.max(#job - 63, 1)
  local tail = string.sub(job, start)
  local from, to = string.match(tail, ',"attempts":()%d+()}$')
  if not from then from, to = string.match(tail, ',"attempts":()%d+(),"delay":[%dnul]+}$') end
  if from then return start + from - 1, start + to - 1, made end
  from, to = scan(job)
  if from then return from, to, made end
end

local dry, taken = {}, 0

local function take(w, want)
  local q = w.queue
  local at = 0
  while want > 0 and bytes > 0 and not dry[q] do
    local jobs = redis.pcall('LRANGE', key(q, 0), at, at + math.min(want, 16) - 1)
    if jobs.err then say('e', q, jobs.err) end
    if jobs.err or #jobs == 0 then dry[q] = true end
    for _, job in ipairs(jobs) do
      if bytes <= 0 then break end
      local from, to, made = attempts(job)
      if from then
        local new = string.format('%.14g', made + 1)
        local copy = string.sub(job, 1, from - 1) .. new .. string.sub(job, to)
        -- in the order in which they were taken, should the lease run out
        local stored, err = add(key(q, 2), string.format('%.6f', lease + taken * 1e-6), copy)
        if err then
          say('e', q, err)
          dry[q] = true
          break
        end
        say('u', q, job, from - 1, to - from, new, #stored - #copy)
      else
        local _, err = add(KEYS[2], now, w.row .. taken .. '}\n' .. job)
        if err then
          say('e', q, err)
          dry[q] = true
          break
        end
        say('b', q, job)
      end
      at, taken, want, bytes, n = at + 1, taken + 1, want - 1, bytes - #job, n - 1
    end
  end
  if at == 0 then return end
  redis.call('LTRIM', key(q, 0), at, -1)
  local paid = math.min(at, w.paid)
  w.paid = w.paid - paid
  if at > paid then redis.pcall('LTRIM', key(q, 3), at - paid, -1) end
end

local wants = {}
while argument < #ARGV do
  local w = {queue = tonumber(arg()), want = tonumber(arg()), paid = tonumber(arg()), row = arg()}
  wants[#wants + 1] = w
  migrate(w.queue, key(w.queue, 1))
  migrate(w.queue, key(w.queue, 2))
end
for _, w in ipairs(wants) do take(w, math.min(n, w.want)) end
for _, w in ipairs(wants) do take(w, n) end

redis.call('RPUSH', KEYS[1], number)
for i = 1, #out, 1000 do redis.call('RPUSH', KEYS[1], unpack(out, i, math.min(i + 999, #out))) end
redis.call('EXPIRE', KEYS[1], ttl)
return out
