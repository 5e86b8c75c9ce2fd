-- open: opens parcels of a fenced fetcher, for a rescuer to deal with each unit.
--
-- KEYS[1]  tombstone of the fetcher
-- KEYS[2]  hash of what it had in progress
-- ARGV[1]  how many parcels to open at most
--
-- Returns how many are left. Error NOTFENCED without a tombstone: the owner of a
-- parcel must know that it is open.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.error_reply('NOTFENCED ' .. KEYS[1] .. ' does not exist')
end
local fields = parcels(KEYS[2])
if #fields == 0 then return 0 end
redis.call('PERSIST', KEYS[2]) -- see room in take.lua
local n = math.min(#fields, tonumber(ARGV[1]))
for k = 1, n do
  local err = open(KEYS[2], fields[k])
  if err then return redis.error_reply(err) end
end
return #fields - n
