-- take: acks units and takes new ones.
--
-- KEYS[1]        lease of the fetcher
-- KEYS[2]        set of paused queues, by bare name
-- KEYS[2i+1]     queue i, 1 <= i <= number of queues
-- KEYS[2i+2]     hash of what the fetcher has in progress from queue i; a lap counts
--                as a queue in front of its own, and has the hash of that
-- last two KEYS  baton and line of the set of queues, if ARGV[6] is not ""
-- ARGV[1]        generation that the lease must hold
-- ARGV[2]        time to live of the lease, ms
-- ARGV[3]        prefix of this call's receipts; two base 36 digits follow it
-- ARGV[4]        how many units to take, 0..1000
-- ARGV[5]        number of wants w
-- ARGV[6], [7]   name of an idle fetcher and flags, see baton.lua; "" for a busy one
-- ARGV[8..7+2w]  (queue i, how many in pass 1)*
-- ARGV[8+2w..]   acks: (queue i, count, receipt*)*
--
-- Returns a flat list of (i, count, job*) in the order of the receipts, which
-- count up from prefix00, and (-i, error text) for a queue that could not be
-- served; "" for a paused one; with a name, (0, 'hold' | 'second' | 'wait N' | 'off')
-- in the end, where the first two have armed the connection's tracking as in sit.
-- Error FENCED when the lease holds another generation or none.
--
-- The job stands in the hash before it leaves the queue: a script that fails
-- half-way keeps what it did, and a job in two places is better than in none.
--
-- Room: when Redis is out of memory it refuses the first command of a script
-- that needs some, but lets a script that has begun to write go on. GETEX is a
-- write that always passes, so jobs can be fetched and make room; the other
-- scripts begin with it or with a PERSIST for the same reason.

local char, floor = string.char, math.floor

-- One command checks the fence and extends the lease.
local lease = call('GETEX', KEYS[1], 'PX', ARGV[2])
if lease ~= ARGV[1] then
  return redis.error_reply('FENCED the lease holds ' .. tostring(lease) .. ', expected ' .. ARGV[1])
end

local out = {}

local function problem(i, err)
  out[#out + 1] = -i
  out[#out + 1] = err
end

local at = 8 + 2 * tonumber(ARGV[5])
while ARGV[at] do
  local i, last = tonumber(ARGV[at]), at + 1 + tonumber(ARGV[at + 1])
  for first = at + 2, last, 1000 do
    local r = pcall('HDEL', KEYS[2 * i + 2], unpack(ARGV, first, math.min(first + 999, last)))
    if type(r) == 'table' and r.err then problem(i, r.err) end
  end
  at = last + 1
end

local n = tonumber(ARGV[4])
if n == 0 then return out end

local prefix = ARGV[3]
local function receipt(x)
  local a, b = floor(x / 36), x % 36
  return prefix .. char(a < 10 and 48 + a or 87 + a, b < 10 and 48 + b or 87 + b)
end

-- A client or a proxy that silently repeats the call must not overwrite or
-- leak what its first run took: then the answer is what that run took.
local name, baton, line, keys = ARGV[6], nil, nil, #KEYS
if name ~= '' then
  baton, line, keys = KEYS[keys - 1], KEYS[keys], keys - 2
end
local wips, watched = {}, {KEYS[2]}
for k = 4, keys, 2 do
  watched[#watched + 1] = KEYS[k - 1]
  wips[#wips + 1] = KEYS[k]
end
if call('EXISTS', unpack(wips)) > 0 then
  local function find(x)
    for i = 1, #wips do
      local job = pcall('HGET', wips[i], receipt(x))
      if type(job) == 'string' then return i, job end
    end
  end
  local i, job = find(0)
  if i then
    local x = 0
    while i do
      out[#out + 1], out[#out + 2], out[#out + 3] = i, 1, job
      x = x + 1
      if x == n then break end
      i, job = find(x)
    end
    return out
  end
end

local got, dry = 0, {}

-- One command while nothing is paused; a key of another type pauses nothing.
if call('EXISTS', KEYS[2]) == 1 then
  for i = 1, #wips do
    local key = KEYS[2 * i + 1]
    local queue = string.match(key, '^troupe:lap:{queue:(.*)}$') or string.sub(key, 7) -- behind "queue:"
    if pcall('SISMEMBER', KEYS[2], queue) == 1 then
      dry[i] = true
      problem(i, '')
    end
  end
end

local function take(i, want)
  local queue, wip = KEYS[2 * i + 1], wips[i]
  local jobs = pcall('LRANGE', queue, -want, -1)
  if jobs.err then
    dry[i] = true
    return problem(i, jobs.err)
  end
  local taken = 0
  while taken < #jobs do -- oldest first: the right end is the next in turn
    local fields, upto = {}, math.min(taken + 500, #jobs)
    for j = taken + 1, upto do
      fields[#fields + 1] = receipt(got + j - 1)
      fields[#fields + 1] = jobs[#jobs - j + 1]
    end
    local r = pcall('HSET', wip, unpack(fields))
    if type(r) == 'table' and r.err then
      dry[i] = true
      problem(i, r.err)
      break
    end
    taken = upto
  end
  if taken < want then dry[i] = true end
  if taken == 0 then return end
  call('LTRIM', queue, 0, -taken - 1)
  out[#out + 1] = i
  out[#out + 1] = taken
  for j = 1, taken do out[#out + 1] = jobs[#jobs - j + 1] end
  got = got + taken
end

local last = 7 + 2 * tonumber(ARGV[5])
for k = 8, last, 2 do
  if got == n then break end
  local i, want = tonumber(ARGV[k]), math.min(tonumber(ARGV[k + 1]), n - got)
  if want > 0 and not dry[i] then take(i, want) end
end
for k = 8, last, 2 do
  if got == n then break end
  local i = tonumber(ARGV[k])
  if not dry[i] then take(i, n - got) end
end

if name ~= '' then
  local seat = sit(baton, line, name, ARGV[7], got < n, got)
  out[#out + 1], out[#out + 2] = 0, seat
  if seat == 'hold' or seat == 'second' then pcall('EXISTS', unpack(watched)) end
end
return out
