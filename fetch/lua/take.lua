-- take acks jobs and takes new ones. Behind enter.
--
-- KEYS[2]  set of paused queues; the index itself where that is in another slot
-- KEYS[3..] lists that are acked from, lists of new claims (NUMBER.1 and so on), queues: as
--          many as ARGV says
-- ARGV[3]  how many jobs to take
-- ARGV[4]  how many bytes: the job that reaches them is the last one
-- ARGV[5..7] how many lists are acked from, lists of new claims and queues there are
-- ARGV[8..] per list that is acked from: its field; its length as the owner knows it; how
--          many of its oldest jobs go; how many others n, and of large ones m; the n jobs, m names
-- then     per queue: what its claims are called, paused name or '', how many in pass 1
--
-- Returns a flat list: ('c', field, queue, n, n jobs) for a claim, ('e', queue, text)
-- for a queue that cannot be served, ('p', queue) for a paused one, ('t', field) for a
-- list whose length is not as expected: nothing was acked of it. Or ('nothing'): there was
-- nothing to do, and Redis does not number the call, as most of an idle owner.

local out = {}
local function say(...)
  for _, v in ipairs({...}) do out[#out + 1] = v end
end

local acks, claims, queues = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local from = KEYS[2] == index and 3 or 2
if acks == 0 and (from > #KEYS or call('EXISTS', unpack(KEYS, from)) == 0) then return {'nothing'} end
local at = 8
for a = 1, acks do
  local list, field, oldest, n, large = KEYS[2 + a], ARGV[at], tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  if oldest > 0 and pcall('LLEN', list) ~= tonumber(ARGV[at + 1]) then
    say('t', field)
  else
    if oldest > 0 then call('LTRIM', list, 0, -oldest - 1) end
    for i = at + 5, at + 4 + n + large do
      local job = i <= at + 4 + n and ARGV[i] or known(list, ARGV[i])
      if not job or pcall('LREM', list, -1, job) ~= 1 then
        say('t', field)
        break
      end
    end
    dropped(list, field)
  end
  at = at + 5 + n + large
end

local n, bytes = tonumber(ARGV[3]), tonumber(ARGV[4])
local firstClaim, firstQueue = 2 + acks, 2 + acks + claims
local used, now, dry = 0, nil, {}
local pauses = KEYS[2] ~= index and call('EXISTS', KEYS[2]) == 1

-- claim moves up to most jobs of a queue into a new claim, and returns how many.
local function claim(q, most)
  local queue = KEYS[firstQueue + q]
  local found = call('LRANGE', queue, -most, -1) -- the oldest is the last
  local last = #found
  local first = last + 1
  while first > 1 and bytes > 0 do
    first = first - 1
    bytes = bytes - #found[first]
  end
  if not now then
    local t = call('TIME')
    now = string.format(' %d', t[1] * 1000 + math.floor(t[2] / 1000))
  end
  used = used + 1
  local field, moved, o = number .. '.' .. used, last - first + 1, #out
  call('HSET', index, field, ARGV[at + 3 * q - 3] .. now)
  call('RPUSH', KEYS[firstClaim + used], unpack(found, first))
  call('LTRIM', queue, 0, -moved - 1)
  out[o + 1], out[o + 2], out[o + 3], out[o + 4] = 'c', field, q, moved
  for i = 1, moved do out[o + 4 + i] = found[last + 1 - i] end
  return moved
end

local function grab(q, want)
  local pause = ARGV[at + 3 * q - 2]
  if dry[q] or want <= 0 then return end
  if pauses and pause ~= '' and pcall('SISMEMBER', KEYS[2], pause) == 1 then
    dry[q] = true
    return say('p', q)
  end
  local there = pcall('LLEN', KEYS[firstQueue + q])
  if text(there) then
    dry[q] = true
    return say('e', q, text(there))
  end
  if there <= want then dry[q] = true end
  want = math.min(want, there)
  local most = 8 -- nobody knows how large the next jobs are: at first few are read
  while want > 0 and bytes > 0 and used < claims do
    local moved = claim(q, math.min(most, want))
    n, want, most = n - moved, want - moved, 64
  end
end

if queues > 4 and n > 0 and not pauses then -- of many, most are empty: they are asked by the dozen
  for first = 1, queues, 64 do
    local last = math.min(first + 63, queues)
    if call('EXISTS', unpack(KEYS, firstQueue + first, firstQueue + last)) == 0 then
      for q = first, last do dry[q] = true end
    end
  end
end
for q = 1, queues do
  if n <= 0 or bytes <= 0 then break end
  grab(q, math.min(n, tonumber(ARGV[at + 3 * q - 1])))
end
for q = 1, queues do
  if n <= 0 or bytes <= 0 then break end
  grab(q, n)
end
confirm()
return out
