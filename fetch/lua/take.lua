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
-- ARGV[8]        most units in a parcel, see parcel.lua; 0 for none
-- ARGV[9..8+2w]  (queue i, how many in pass 1)*
-- ARGV[9+2w..]   acks: (queue i, count, field*)*, a receipt or a whole parcel each;
--                in front of them (-i, count, parcel*) to be opened first
--
-- Returns a flat list of (i, count, job*) or (i, -count, parcel) in the order of the
-- receipts, which count up from prefix00, and (-i, error text) for a queue that could
-- not be served; "" for a paused one; with a name, (0, 'hold' | 'second' | 'wait N' |
-- 'off') in the end, where the first two have armed the connection's tracking as in
-- sit. Error FENCED when the lease holds another generation or none.
--
-- The job stands in the hash before it leaves the queue: a script that fails
-- half-way keeps what it did, and a job in two places is better than in none.
--
-- Room: when Redis is out of memory it refuses the first command of a script
-- that needs some, but lets a script that has begun to write go on. GETEX is a
-- write that always passes, so jobs can be fetched and make room; the other
-- scripts begin with it or with a PERSIST for the same reason.

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

local at = 9 + 2 * tonumber(ARGV[5])
while ARGV[at] do
  local i, first, last = tonumber(ARGV[at]), at + 2, at + 1 + tonumber(ARGV[at + 1])
  if i < 0 then
    for k = first, last do
      local err = open(KEYS[-2 * i + 2], ARGV[k])
      if err then problem(-i, err) end
    end
  else
    for k = first, last, 1000 do
      local r = pcall('HDEL', KEYS[2 * i + 2], unpack(ARGV, k, math.min(k + 999, last)))
      if type(r) == 'table' and r.err then problem(i, r.err) end
    end
  end
  at = last + 1
end

local n = tonumber(ARGV[4])
if n == 0 then return out end

-- A client or a proxy that silently repeats the call must not overwrite or
-- leak what its first run took: then the answer is what that run took.
local prefix = ARGV[3]
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
  local function find(x) -- the queue and the count of what begins with unit x, and its bytes
    local r = receipt(prefix, x)
    for i = 1, #wips do
      local held = pcall('HMGET', wips[i], r, r .. '+')
      if held[1] then return i, 1, held[1] end
      if held[2] then return i, #contents(held[2]), held[2], true end
    end
  end
  local x = 0
  while x < n do
    local i, count, bytes, parcel = find(x)
    if not i then break end
    local o = #out
    out[o + 1], out[o + 2], out[o + 3] = i, parcel and -count or count, bytes
    x = x + count
  end
  if x > 0 then return out end
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

-- pack returns jobs[a..b] as a parcel; nil if one of them has a 0 byte, which no
-- JSON has, or if they are large: then there is nothing to save.
local function pack(jobs, a, b)
  local size = 0
  for j = a, b do
    size = size + #jobs[j]
    if size > 16384 then return nil end
  end
  if string.find(table.concat(jobs, '', a, b), '\0', 1, true) then return nil end
  return table.concat(jobs, '\0', a, b)
end

local most = tonumber(ARGV[8])

local function take(i, want)
  local queue, wip = KEYS[2 * i + 1], wips[i]
  local jobs = pcall('LRANGE', queue, -want, -1)
  if jobs.err then
    dry[i] = true
    return problem(i, jobs.err)
  end
  local len, taken = #jobs, 0
  while taken < len do -- oldest first: the right end is the next in turn
    local upto = math.min(taken + 480, len)
    local fields, f, reply, o, at = {}, 0, {}, 0, taken
    while at < upto do
      local count, parcel = upto - at, nil
      if most > 0 then
        count = math.min(most, count)
        parcel = count > 1 and pack(jobs, len - at - count + 1, len - at)
      end
      if parcel then
        fields[f + 1], fields[f + 2], f = receipt(prefix, got + at) .. '+', parcel, f + 2
        reply[o + 1], reply[o + 2], reply[o + 3], o = i, -count, parcel, o + 3
      else
        reply[o + 1], reply[o + 2], o = i, count, o + 2
        for j = at, at + count - 1 do
          local job = jobs[len - j]
          fields[f + 1], fields[f + 2], f = receipt(prefix, got + j), job, f + 2
          reply[o + 1], o = job, o + 1
        end
      end
      at = at + count
    end
    local r = pcall('HSET', wip, unpack(fields, 1, f))
    if type(r) == 'table' and r.err then
      dry[i] = true
      problem(i, r.err)
      break
    end
    taken = upto
    local first = #out
    for k = 1, o do out[first + k] = reply[k] end
  end
  if taken < want then dry[i] = true end
  if taken == 0 then return end
  call('LTRIM', queue, 0, -taken - 1)
  got = got + taken
end

local last = 8 + 2 * tonumber(ARGV[5])
for k = 9, last, 2 do
  if got == n then break end
  local i, want = tonumber(ARGV[k]), math.min(tonumber(ARGV[k + 1]), n - got)
  if want > 0 and not dry[i] then take(i, want) end
end
for k = 9, last, 2 do
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
