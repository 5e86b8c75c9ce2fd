-- recall tells what is known of jobs that were recovered, and forgets what is old.
--
-- KEYS[1]  zset: job -> ms of its last recovery
-- KEYS[2]  hash: job -> its recoveries
-- ARGV[1]  ms after which a recovery is forgotten
-- ARGV[2]  how many jobs to remember at most
-- ARGV[3..] jobs, at most 1000
--
-- Returns {now in ms, (recoveries or "")*}. A key of another type knows nothing.

local pcall = redis.pcall
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

local function forget(jobs)
  if type(jobs) ~= 'table' or jobs.err or #jobs == 0 then return end
  pcall('ZREM', KEYS[1], unpack(jobs))
  pcall('HDEL', KEYS[2], unpack(jobs))
end
forget(pcall('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%d', now - ARGV[1]), 'LIMIT', 0, 1000))
local n = pcall('ZCARD', KEYS[1])
if type(n) == 'number' and n > tonumber(ARGV[2]) then
  forget(pcall('ZRANGE', KEYS[1], 0, math.min(n - ARGV[2], 1000) - 1))
end

local out = {string.format('%d', now)}
local known = pcall('HMGET', KEYS[2], unpack(ARGV, 3))
for i = 1, #ARGV - 2 do
  out[#out + 1] = not known.err and known[i] or ''
end
return out
