-- parcel: units that one call took from one queue, in a list of their own. This is
-- the head of the scripts that meet them.
--
-- A field for each unit costs Redis more than all the rest of a take, and most of
-- that is the way of their bytes through Lua. So a take has Redis copy units from
-- the queue to a list, the oldest first, without a look at them. The private place
-- has one field for all: the receipt of the oldest with a "+" behind it; the value is
-- their number, a space, and the key of the list. All done, they are acked together.
-- Where one of them goes another way, or long before the others, the parcel is
-- opened first: then each has a field of its own under its own receipt.

local DIGITS = '0123456789abcdefghijklmnopqrstuvwxyz'

-- receipt of unit x, counted from 0, of the call with this prefix
local function receipt(prefix, x)
  local a, b, c = math.floor(x / 1296) + 1, math.floor(x / 36) % 36 + 1, x % 36 + 1
  return prefix .. string.sub(DIGITS, a, a) .. string.sub(DIGITS, b, b) .. string.sub(DIGITS, c, c)
end

-- label returns the number of units and the list of a parcel, from the value of its field;
-- nil if that is no parcel.
local function label(value)
  local count, list = string.match(value, '^(%d+) (.+)$')
  return tonumber(count), list
end

-- open opens the parcel in a field of wip; nothing happens where there is none. It
-- returns nil, or the error text that kept it from that: one that begins with TORN where
-- units are missing, unless those are given up; then their number is returned as well.
local function open(wip, field, give_up)
  local value = redis.pcall('HGET', wip, field)
  if type(value) ~= 'string' then return value and value.err end
  local count, list = label(value)
  if not count then return 'NOPARCEL ' .. field .. ' of ' .. wip .. ' is no parcel' end
  local jobs, fields = redis.pcall('LRANGE', list, 0, -1), {}
  if jobs.err then return jobs.err end
  if #jobs ~= count and not give_up then
    return 'TORN ' .. list .. ' holds ' .. #jobs .. ' of ' .. count .. ' units'
  end
  local prefix, x = string.sub(field, 1, -5), tonumber(string.sub(field, -4, -2), 36)
  for j = 1, #jobs do
    fields[2 * j - 1], fields[2 * j] = receipt(prefix, x + j - 1), jobs[j]
  end
  if #jobs > 0 then
    local r = redis.pcall('HSET', wip, unpack(fields))
    if type(r) == 'table' and r.err then return r.err end
  end
  redis.call('HDEL', wip, field)
  redis.call('DEL', list)
  return nil, count - #jobs
end

-- parcels lists the fields of wip that are parcels, in the same order on every server.
local function parcels(wip)
  local out, fields = {}, redis.pcall('HKEYS', wip)
  for _, field in ipairs(fields.err and {} or fields) do
    if string.sub(field, -1) == '+' then out[#out + 1] = field end
  end
  table.sort(out)
  return out
end
