-- settle: moves units of one queue out of the fetcher's private place.
--
-- KEYS[1]  lease of the fetcher
-- KEYS[2]  hash of what it has in progress from the queue
-- KEYS[3]  the queue       (place 0: the end that is popped next; place 4: the other)
-- KEYS[4]  retry set       (place 1)
-- KEYS[5]  schedule set    (place 2)
-- KEYS[6]  dead set        (place 3)
-- KEYS[7]  set of all queues
-- ARGV[1]  generation that the lease must hold
-- ARGV[2]  time to live of the lease, ms
-- ARGV[3]  name of the queue
-- ARGV[4]  number of parcels p of these units, see parcel.lua; they are opened
-- ARGV[5..4+p] their fields
-- ARGV[5+p..] at most 500 moves in groups, each of them:
--          place
--          number of moves n
--          "1" to write the bytes of the private place, "" to write those given, "+" where
--          the units are a whole parcel and their bytes are given
--          trim by score ("" or the score up to which members of the dead set go)
--          trim by rank ("" or one more than the members that stay)
--          n receipts, all different; of a whole parcel its field and its list
--          values: of places 1 to 3 (score, bytes)*n, of 0 and 4 bytes*n; without
--          the bytes where those of the private place are written
--          Of place 0 the last is popped next, of place 4 the first is popped first.
--
-- Returns per group 1, or an error text; then all its units are still in the
-- private place. What is not there was moved by an earlier try and is left out.
-- Error FENCED as in take.

local call, pcall = redis.call, redis.pcall

local lease = call('GETEX', KEYS[1], 'PX', ARGV[2])
if lease ~= ARGV[1] then
  return redis.error_reply('FENCED the lease holds ' .. tostring(lease) .. ', expected ' .. ARGV[1])
end

local wip = KEYS[2]
local parcel = 4 + tonumber(ARGV[4])
for k = 5, parcel do
  local err = open(wip, ARGV[k])
  if err then return redis.error_reply(err) end -- else its units would count as moved before
end

local function write(place, ...)
  if place == 0 then return pcall('RPUSH', KEYS[3], ...) end
  if place < 4 then return pcall('ZADD', KEYS[3 + place], ...) end
  local r = pcall('SADD', KEYS[7], ARGV[3]) -- a name too many does no harm
  if type(r) == 'table' and r.err then return r end
  return pcall('LPUSH', KEYS[3], ...)
end

-- Are all n units there? Their bytes are not wanted, but one HMGET is cheaper
-- than n questions as long as they are short.
local function whole(first, n, long)
  local there
  if not long then
    there = pcall('HMGET', wip, unpack(ARGV, first, first + n - 1))
    if there.err then return there end
  end
  for i = 1, n do
    if long then
      local r = pcall('HEXISTS', wip, ARGV[first + i - 1])
      if r ~= 1 then return type(r) == 'table' and r end
    elseif not there[i] then
      return false
    end
  end
  return true
end

-- The slow way: of what is there, the receipts and the values.
local function pick(place, own, first, n)
  local held = pcall('HMGET', wip, unpack(ARGV, first, first + n - 1))
  if held.err then return held end
  local gone, values = {}, {}
  local scored, at = place > 0 and place < 4, first + n
  for i = 1, n do
    local score, bytes
    if scored then score, at = ARGV[at], at + 1 end
    if not own then bytes, at = ARGV[at], at + 1 end
    if held[i] then
      gone[#gone + 1] = ARGV[first + i - 1]
      if scored then values[#values + 1] = score end
      values[#values + 1] = own and held[i] or bytes
    end
  end
  return gone, values
end

-- One group is one command: it works as a whole or fails as a whole.
-- The destination first: had the units left the hash before a ZADD that fails
-- (wrong type, out of memory), they would be nowhere.
local function move(place, own, first, n, last)
  local all = not own and whole(first, n, #ARGV[last] > 1000)
  if all == true then
    local r = write(place, unpack(ARGV, first + n, last))
    if type(r) == 'table' and r.err then return r.err end
    call('HDEL', wip, unpack(ARGV, first, first + n - 1))
    return 1
  end
  if all then return all.err end
  local gone, values = pick(place, own, first, n)
  if gone.err then return gone.err end
  if #gone > 0 then
    local r = write(place, unpack(values))
    if type(r) == 'table' and r.err then return r.err end
    call('HDEL', wip, unpack(gone))
  end
  return 1
end

-- All units of a parcel that was never opened: it is there, or all of them were moved.
local function whole_parcel(place, field, list, first, last)
  local there = pcall('HEXISTS', wip, field)
  if there == 0 then return 1 end
  if there ~= 1 then return there.err end
  local r = write(place, unpack(ARGV, first, last))
  if type(r) == 'table' and r.err then return r.err end
  call('HDEL', wip, field)
  call('DEL', list)
  return 1
end

local out, at = {}, parcel + 1
while ARGV[at] do
  local place, n, own = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  local before, max, first = ARGV[at + 3], ARGV[at + 4], at + 5
  local each = (place > 0 and place < 4 and 1 or 0) + (own and 0 or 1)
  local done
  if ARGV[at + 2] == '+' then
    at = first + 2 + each * n
    done = whole_parcel(place, ARGV[first], ARGV[first + 1], first + 2, at - 1)
  else
    at = first + n + each * n
    done = move(place, own, first, n, at - 1)
  end
  if done == 1 and place == 3 then
    if before ~= '' then call('ZREMRANGEBYSCORE', KEYS[6], '-inf', before) end
    if max ~= '' then call('ZREMRANGEBYRANK', KEYS[6], 0, -tonumber(max)) end
  end
  out[#out + 1] = done
end
return out
