-- fence: shuts a dead fetcher out, for ever.
--
-- KEYS[1]  registry
-- KEYS[2]  index of leases
-- KEYS[3]  lease of the fetcher
-- KEYS[4]  its tombstone
-- KEYS[5..] hashes of what it has in progress, by queue
-- ARGV[1]  fetcher id
-- ARGV[2]  how long the tombstone stands, ms
-- ARGV[3]  "1" when the hashes are in other slots: the id stays in the index
--
-- Returns {-1} when the lease lives (the index is corrected), else the number
-- of units in each hash; -2 stands for a key of the wrong type.
--
-- From here on only rescuers touch the hashes: every script of the fetcher
-- wants its lease or its registration. The id stays in the index until the
-- hashes are empty, and the tombstone names the queues, so that a rescue that
-- breaks off is found and finished by the next rescuer.

local call = redis.call

call('PERSIST', KEYS[2]) -- see room in take.lua
local left = call('PTTL', KEYS[3])
if left ~= -2 then
  if left == -1 then left = 60000 end
  local t = call('TIME')
  call('ZADD', KEYS[2], 'XX', t[1] * 1000 + math.floor(t[2] / 1000) + left, ARGV[1])
  return {-1}
end

local names = call('HGET', KEYS[1], ARGV[1])
if names then
  call('SET', KEYS[4], names, 'PX', ARGV[2])
  call('HDEL', KEYS[1], ARGV[1])
end

local out, empty = {}, ARGV[3] ~= '1'
for k = 5, #KEYS do
  local n = redis.pcall('HLEN', KEYS[k])
  if type(n) ~= 'number' then n = -2 end
  if n ~= 0 then empty = false end
  out[#out + 1] = n
end
if empty then call('ZREM', KEYS[2], ARGV[1]) end
return out
