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
-- ARGV[3..] at most 500 moves of seven: receipt, place, score (of place 4: name
--          of the queue), "1" to write the bytes of the private place, else the
--          bytes to write, trim by score ("" or the score up to which members of
--          the dead set go), trim by rank ("" or one more than the members that
--          stay). Of those with place 0 the last is popped next, of those with
--          place 4 the first is popped first.
--
-- Returns per move 1 (moved), 0 (the receipt is not there) or an error text;
-- then the unit is still in the private place. Error FENCED as in take.

local call, pcall = redis.call, redis.pcall

local lease = call('GETEX', KEYS[1], 'PX', ARGV[2])
if lease ~= ARGV[1] then
  return redis.error_reply('FENCED the lease holds ' .. tostring(lease) .. ', expected ' .. ARGV[1])
end

if #ARGV == 2 then return {} end

-- The moves of a batch mostly want the same trim.
local function trim(group)
  local before, max = '', ''
  for _, m in ipairs(group) do
    local b, x = ARGV[7 * m + 1], ARGV[7 * m + 2]
    if b ~= '' and b ~= before then call('ZREMRANGEBYSCORE', KEYS[6], '-inf', b) end
    if x ~= '' and x ~= max then call('ZREMRANGEBYRANK', KEYS[6], 0, -tonumber(x)) end
    before, max = b, x
  end
end

local out, receipts = {}, {}
for at = 3, #ARGV, 7 do receipts[#receipts + 1] = ARGV[at] end
local held = pcall('HMGET', KEYS[2], unpack(receipts))

-- Moves to one place are one command: each of them works as a whole or fails
-- as a whole.
local groups, seen = {[0] = {}, {}, {}, {}, {}}, {}
for m = 1, #receipts do
  local receipt = receipts[m]
  if held.err then
    out[m] = held.err
  elseif not held[m] or seen[receipt] then
    out[m] = 0
  else
    seen[receipt] = true
    local group = groups[tonumber(ARGV[7 * m - 3])]
    group[#group + 1] = m
  end
end

local function write(place, name, values)
  if place == 0 then return pcall('RPUSH', KEYS[3], unpack(values)) end
  if place < 4 then return pcall('ZADD', KEYS[3 + place], unpack(values)) end
  local r = pcall('SADD', KEYS[7], name) -- a name too many does no harm
  if type(r) == 'table' and r.err then return r end
  return pcall('LPUSH', KEYS[3], unpack(values))
end

for place = 0, 4 do
  local group, values, gone = groups[place], {}, {}
  for k, m in ipairs(group) do
    local at = 7 * m - 4
    if place > 0 and place < 4 then values[#values + 1] = ARGV[at + 2] end
    values[#values + 1] = ARGV[at + 3] == '1' and held[m] or ARGV[at + 4]
    gone[k] = receipts[m]
  end
  if #group > 0 then
    -- The destination first: had the units left the hash before a ZADD that
    -- fails (wrong type, out of memory), they would be nowhere.
    local r = write(place, ARGV[7 * group[1] - 2], values)
    local err = type(r) == 'table' and r.err
    for _, m in ipairs(group) do out[m] = err or 1 end
    if not err then
      call('HDEL', KEYS[2], unpack(gone))
      if place == 3 then trim(group) end
    end
  end
end
return out
