-- take: acks units and takes new ones.
--
-- KEYS[1]        lease of the fetcher
-- KEYS[1+i]      hash of what the fetcher has in progress from queue i, 1 <= i <= queues;
--                the lap of a queue counts as one more, with the hash of that queue
-- KEYS[2+queues] set of paused queues, by bare name
-- KEYS[2+queues+i] queue i
-- last two KEYS  baton and line of the set of queues, if ARGV[6] is not ""
-- ARGV[1]        generation that the lease must hold
-- ARGV[2]        time to live of the lease, ms
-- ARGV[3]        prefix of this call's receipts; three base 36 digits follow it
-- ARGV[4]        how many units to take, 0..2560
-- ARGV[5]        number of wants w
-- ARGV[6], [7]   name of an idle fetcher and flags, see baton.lua; "" for a busy one
-- ARGV[8]        most units in a parcel, see parcel.lua; 1 where units are large
-- ARGV[9]        most parcels, 0 for none
-- ARGV[10]       what the keys of their lists begin with; a number from 0 follows it
-- ARGV[11]       bytes of payloads, 1 or more: the unit that reaches them is the last one
-- ARGV[12..11+2w] (queue i, how many in pass 1)*
-- ARGV[12+2w..]  acks: (-i, count, field*)* parcels of queue i that are to be opened,
--                (i, count, receipt*)* and ("i+", 2 * count, (field, list)*)*, whole
--                parcels; all of a queue in this order
--
-- Returns a flat list of (i, count, job*) or (i, -count, parcel's number) in the order of
-- the receipts, which count up from prefix000, and (-i, error text) for a queue that could
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
--
-- Bytes: of a parcel they are what Redis needs to keep it, somewhat more.

local out = {}

local function problem(i, err)
  out[#out + 1] = -i
  out[#out + 1] = err
end

-- ack deletes whole parcels, or tells why not.
local function ack(wip, first, last)
  local fields, lists = {}, {}
  for k = first, last, 2 do
    fields[#fields + 1], lists[#lists + 1] = ARGV[k], ARGV[k + 1]
  end
  local r = pcall('HDEL', wip, unpack(fields))
  if type(r) == 'table' and r.err then return r.err end
  call('DEL', unpack(lists))
end

local name, baton, line, keys = ARGV[6], nil, nil, #KEYS
if name ~= '' then
  baton, line, keys = KEYS[keys - 1], KEYS[keys], keys - 2
end
local queues = keys / 2 - 1
local paused, last = queues + 2, 11 + 2 * tonumber(ARGV[5]) -- where the queues begin, and the wants end

local at = last + 1
while ARGV[at] do
  local i, first, last = tonumber(ARGV[at]), at + 2, at + 1 + tonumber(ARGV[at + 1])
  if not i then
    i = tonumber(string.sub(ARGV[at], 1, -2))
    local err = ack(KEYS[1 + i], first, last)
    if err then problem(i, err) end
  elseif i < 0 then
    for k = first, last do
      local err = open(KEYS[1 - i], ARGV[k])
      if err and string.sub(err, 1, 4) == 'TORN' then return redis.error_reply(err) end
      if err then problem(-i, err) end
    end
  else
    for k = first, last, 1000 do
      local r = pcall('HDEL', KEYS[1 + i], unpack(ARGV, k, math.min(k + 999, last)))
      if type(r) == 'table' and r.err then problem(i, r.err) end
    end
  end
  at = last + 1
end

local n = tonumber(ARGV[4])
if n == 0 then return out end

-- A client or a proxy that silently repeats the call must not overwrite or
-- leak what its first run took: then the answer is what that run took.
local prefix, most, room, lists = ARGV[3], tonumber(ARGV[8]), tonumber(ARGV[9]), ARGV[10]
local met = call('EXISTS', unpack(KEYS, 2, paused)) -- nothing in progress or paused, mostly
local pause = met > 0 and call('EXISTS', KEYS[paused]) or 0
if met > pause then
  local function find(x) -- the queue and the count of what begins with unit x, and where it is
    local r = receipt(prefix, x)
    for i = 1, queues do
      local held = pcall('HMGET', KEYS[1 + i], r, r .. '+')
      if held[1] then return i, 1, held[1] end
      if held[2] then
        local count, list = label(held[2])
        if count then return i, -count, string.sub(list, #lists + 1) end
      end
    end
  end
  local x = 0
  while x < n do
    local i, count, what = find(x)
    if not i or count == 0 then break end
    local o = #out
    out[o + 1], out[o + 2], out[o + 3] = i, count, what
    x = x + math.abs(count)
  end
  if x > 0 then return out end
end

local got, dry, bytes = 0, {}, tonumber(ARGV[11]) -- bytes: how many are left

if pause > 0 then -- a key of another type pauses nothing
  for i = 1, queues do
    local key = KEYS[paused + i]
    local queue = string.match(key, '^troupe:lap:{queue:(.*)}$') or string.sub(key, 7) -- behind "queue:"
    if pcall('SISMEMBER', KEYS[paused], queue) == 1 then
      dry[i] = true
      problem(i, '')
    end
  end
end

-- copy makes a list of up to n units of a queue, behind those that are older, as far as they
-- fit; it returns how many, 0 for too few, and an error text if it met one. Redis 7
-- finds the end of a queue at once, copies without a look at the bytes, and knows how many
-- they were; an older one, and a user who must not SORT or ask, take the way through Lua.
local sorts, least = redis.REDIS_VERSION_NUM ~= nil, math.min(most, 2)

local function copy(queue, older, n, list)
  while sorts and n >= least do
    sorts = pcall('SORT', queue, 'BY', 'nosort', 'DESC', 'LIMIT', older, n, 'STORE', list) == n
    local size = sorts and pcall('MEMORY', 'USAGE', list, 'SAMPLES', 0)
    sorts = type(size) == 'number'
    if sorts and (size <= bytes or n == 1) then
      bytes = bytes - size
      return n
    end
    if sorts then n = math.floor(n * math.min(0.5, bytes / size)) end
  end
  local r = pcall('DEL', list)
  if type(r) == 'table' then return 0, r.err end
  if n < least then return 0 end
  local jobs, size, err = bite(queue, older, n, bytes)
  if err or #jobs < least then return 0, err end
  r = pcall('RPUSH', list, unpack(jobs))
  if type(r) == 'table' then return 0, r.err end
  bytes = bytes - size
  return #jobs
end

local made = 0 -- parcels

-- share takes up to want units of queue i in parcels; it returns how many it took, an
-- error text if it has met one, and how many there were: nil if the queue is to blame.
local function share(i, want)
  local len = pcall('LLEN', KEYS[paused + i])
  if type(len) == 'table' then return 0, len.err end
  local first, taken, fields, reply, err = made, 0, {}, {}, nil
  want = math.min(want, len)
  while want - taken >= least and made < room and bytes > 0 do
    local list, n = lists .. made, nil
    n, err = copy(KEYS[paused + i], taken, math.min(most, want - taken), list)
    if n == 0 then break end
    local f, o = #fields, #reply
    fields[f + 1], fields[f + 2] = receipt(prefix, got + taken) .. '+', n .. ' ' .. list
    reply[o + 1], reply[o + 2], reply[o + 3] = i, -n, made
    taken, made = taken + n, made + 1
  end
  if taken == 0 then return 0, err, len end
  local r = pcall('HSET', KEYS[1 + i], unpack(fields))
  if type(r) == 'table' and r.err then
    for k = first, made - 1 do call('DEL', lists .. k) end
    return 0, r.err, nil
  end
  local o = #out
  for k = 1, #reply do out[o + k] = reply[k] end
  return taken, err, len
end

-- single takes up to want units of queue i, behind those that are older, with a field each;
-- it returns how many it took, and an error text if it has met one.
local function single(i, want, older)
  local jobs, size, err = bite(KEYS[paused + i], older, want, bytes)
  if err then return 0, err end
  bytes = bytes - size
  local taken = 0
  while taken < #jobs do -- oldest first: the right end is the next in turn
    local upto, fields, f, o = math.min(taken + 480, #jobs), {}, 0, #out
    for j = taken, upto - 1 do
      fields[f + 1], fields[f + 2], f = receipt(prefix, got + older + j), jobs[j + 1], f + 2
    end
    local r = pcall('HSET', KEYS[1 + i], unpack(fields))
    if type(r) == 'table' and r.err then return taken, r.err end
    out[o + 1], out[o + 2] = i, upto - taken
    for j = taken, upto - 1 do out[o + 3 + j - taken] = jobs[j + 1] end
    taken = upto
  end
  return taken
end

local function take(i, want)
  local taken, more, err, len = 0, 0, nil, want
  if room > made then taken, err, len = share(i, want) end
  if err and len then room, err = 0, nil end -- no list may be written: without parcels, then
  if not err and taken < math.min(want, len) then more, err = single(i, want - taken, taken) end
  taken = taken + more
  if err then problem(i, err) end
  if taken < want then dry[i] = true end
  if taken == 0 then return end
  call('LTRIM', KEYS[paused + i], 0, -taken - 1)
  got = got + taken
end

for k = 12, last, 2 do
  if got == n or bytes <= 0 then break end
  local i, want = tonumber(ARGV[k]), math.min(tonumber(ARGV[k + 1]), n - got)
  if want > 0 and not dry[i] then take(i, want) end
end
for k = 12, last, 2 do
  if got == n or bytes <= 0 then break end
  local i = tonumber(ARGV[k])
  if not dry[i] then take(i, n - got) end
end

if name ~= '' then
  local seat = sit(baton, line, name, ARGV[7], got < n and bytes > 0, got)
  out[#out + 1], out[#out + 2] = 0, seat
  if seat == 'hold' or seat == 'second' then pcall('EXISTS', unpack(KEYS, paused, paused + queues)) end
end
return out
