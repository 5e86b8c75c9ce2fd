-- settle: moves units of one queue out of the fetcher's private place.
--
-- KEYS[1]  lease of the fetcher
-- KEYS[2]  hash of what it has in progress from the queue
-- KEYS[3]  the queue       (place 0)
-- KEYS[4]  retry set       (place 1)
-- KEYS[5]  schedule set    (place 2)
-- KEYS[6]  dead set        (place 3)
-- ARGV[1]  generation that the lease must hold
-- ARGV[2]  time to live of the lease, ms
-- ARGV[3..] per move seven: receipt, place, score, "1" to write the bytes of
--          the private place, else the bytes to write, trim by score ("" or the
--          score up to which members of the dead set go), trim by rank ("" or
--          the size above which its oldest members go, less one)
--
-- Returns per move 1 (moved), 0 (the receipt is not there) or an error text;
-- then the unit is still in the private place. Error FENCED as in take.

local call, pcall = redis.call, redis.pcall

local lease = call('GETEX', KEYS[1], 'PX', ARGV[2])
if lease ~= ARGV[1] then
  return redis.error_reply('FENCED the lease holds ' .. tostring(lease) .. ', expected ' .. ARGV[1])
end

local function failed(r) return type(r) == 'table' and r.err end

local function move(at)
  local receipt, place = ARGV[at], tonumber(ARGV[at + 1])
  local held = pcall('HGET', KEYS[2], receipt)
  if not held then return 0 end
  if failed(held) then return held.err end

  local bytes = ARGV[at + 4]
  if ARGV[at + 3] == '1' then bytes = held end

  -- The destination first: had the unit left the hash before a ZADD that
  -- fails (wrong type, out of memory), it would be nowhere.
  local r
  if place == 0 then
    r = pcall('RPUSH', KEYS[3], bytes)
  else
    r = pcall('ZADD', KEYS[3 + place], ARGV[at + 2], bytes)
  end
  if failed(r) then return r.err end
  call('HDEL', KEYS[2], receipt)

  if place == 3 then
    if ARGV[at + 5] ~= '' then pcall('ZREMRANGEBYSCORE', KEYS[6], '-inf', ARGV[at + 5]) end
    if ARGV[at + 6] ~= '' then pcall('ZREMRANGEBYRANK', KEYS[6], 0, -tonumber(ARGV[at + 6])) end
  end
  return 1
end

local out = {}
for at = 3, #ARGV, 7 do out[#out + 1] = move(at) end
return out
