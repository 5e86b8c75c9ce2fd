-- parcel: units that one call took from one queue, in one field of a private
-- place. This is the head of the scripts that meet them.
--
-- A field for each unit costs Redis more than all the rest of a take. So a take
-- stores its units in parcels: the field is the receipt of the oldest with a "+"
-- behind it, the value their bytes, the newest first as in the queue, with a 0 byte
-- between them. All done, they are acked together, by one HDEL. Where one of them
-- goes another way, or long before the others, the parcel is opened first: then
-- each has a field of its own under its own receipt.

local DIGITS = '0123456789abcdefghijklmnopqrstuvwxyz'

-- receipt of unit x, counted from 0, of the call with this prefix
local function receipt(prefix, x)
  local a, b = math.floor(x / 36) + 1, x % 36 + 1
  return prefix .. string.sub(DIGITS, a, a) .. string.sub(DIGITS, b, b)
end

-- contents returns the units of a parcel, newest first.
local function contents(all)
  local jobs, at = {}, 1
  while true do
    local zero = string.find(all, '\0', at, true)
    if not zero then break end
    jobs[#jobs + 1] = string.sub(all, at, zero - 1)
    at = zero + 1
  end
  jobs[#jobs + 1] = string.sub(all, at)
  return jobs
end

-- open opens the parcel in a field of wip; nothing happens where there is none. It
-- returns nil, or the error text that kept it from that.
local function open(wip, field)
  local all = redis.pcall('HGET', wip, field)
  if type(all) ~= 'string' then return all and all.err end
  local jobs, fields = contents(all), {}
  local prefix, x = string.sub(field, 1, -4), tonumber(string.sub(field, -3, -2), 36)
  for j = 1, #jobs do
    fields[2 * j - 1], fields[2 * j] = receipt(prefix, x + #jobs - j), jobs[j]
  end
  local r = redis.pcall('HSET', wip, unpack(fields))
  if type(r) == 'table' and r.err then return r.err end
  redis.call('HDEL', wip, field)
end

-- parcels lists the fields of wip that are parcels.
local function parcels(wip)
  local out, fields = {}, redis.pcall('HKEYS', wip)
  for _, field in ipairs(fields.err and {} or fields) do
    if string.sub(field, -1) == '+' then out[#out + 1] = field end
  end
  return out
end
