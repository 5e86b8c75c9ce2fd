-- name names a list in the index of its owner again, which has no lease, so that a rescuer
-- finds it. An index that is gone is made, and fenced.
--
-- KEYS[1]  in-progress index, KEYS[2] list, KEYS[3] registry of owners
-- KEYS[4]  lease; on a cluster, where it lies in another slot, none
-- ARGV[1]  id of the owner, ARGV[2] what the registry is to say of it
-- ARGV[3]  field of the list, ARGV[4] its queue
-- ARGV[5]  ms for which a tombstone stands
--
-- Returns 1, or 0 if the list is gone, the owner lives, or the registry says something else of
-- it: then a rescuer comes by it anyway. The registry comes first: an owner without an index is
-- taken out of it by the next rescuer.

local call = redis.call
call('HDEL', KEYS[3], '') -- see enter
if call('TYPE', KEYS[2]).ok ~= 'list' or KEYS[4] and call('EXISTS', KEYS[4]) == 1 then return 0 end
local known = call('HGET', KEYS[3], ARGV[1])
if known and known ~= ARGV[2] then return 0 end
call('HSET', KEYS[3], ARGV[1], ARGV[2])
local t = call('TIME')
local now = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000))
local value = ARGV[4] .. ' ' .. now
local mark = call('HGET', KEYS[1], '!')
if not mark then
  call('HSET', KEYS[1], '!', 'fenced ' .. now .. ' 0 0', ARGV[3], value)
else
  if not call('HGET', KEYS[1], ARGV[3]) then call('HSET', KEYS[1], ARGV[3], value) end
  if string.sub(mark, 1, 6) == 'fenced' then call('PEXPIRE', KEYS[1], ARGV[5]) end
end
return 1
