-- open: opens parcels of a fenced fetcher, for a rescuer to deal with each unit.
--
-- KEYS[1]  tombstone of the fetcher
-- KEYS[2]  hash of what it had in progress
-- ARGV[1]  how many parcels to open at most
--
-- Returns {how many are left, how many units of those opened Redis has lost, (field, error
-- text)*}, the latter of parcels that cannot be opened: they stay as they are and are not
-- left. So does a field that only looks like a parcel. Error NOTFENCED without a
-- tombstone: the owner of a parcel must know that it is open.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.error_reply('NOTFENCED ' .. KEYS[1] .. ' does not exist')
end
local fields = parcels(KEYS[2])
if #fields == 0 then return {'0', '0'} end
redis.call('PERSIST', KEYS[2]) -- see room in take.lua
local opened, left, missing, out = 0, 0, 0, {'', ''}
for _, field in ipairs(fields) do
  if opened == tonumber(ARGV[1]) then
    left = left + 1
  else
    local err, gone = open(KEYS[2], field, true)
    if not err then
      opened, missing = opened + 1, missing + gone
    elseif string.sub(err, 1, 8) ~= 'NOPARCEL' then
      out[#out + 1], out[#out + 2] = field, err
    end
  end
end
out[1], out[2] = tostring(left), tostring(missing)
return out
