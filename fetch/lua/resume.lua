-- resume: begins a new generation after a call whose outcome is not known, and
-- tells what that call took.
--
-- KEYS[1]  registry
-- KEYS[2]  index of leases
-- KEYS[3]  lease of the fetcher
-- KEYS[4]  tombstone of the fetcher
-- KEYS[5..] hashes of what it has in progress, by queue; none on a cluster, nor ARGV[4..]
-- ARGV[1]  fetcher id
-- ARGV[2]  new generation
-- ARGV[3]  time to live of the lease, ms
-- ARGV[4]  after so many bytes it ends, whatever follows; one unit it tells at least
-- ARGV[5]  receipt up to which earlier pages have told all, "" for the first page
-- ARGV[6..] prefixes of the receipts that the failed calls could have made
--
-- Returns {"FENCED"} when a rescuer has taken over, {"LOST"} when Redis has
-- forgotten the fetcher, else {"OK", "more" or "", (queue index from 1, receipt, job)*},
-- in the order of receipts. Where there is more, the last of them is ARGV[5] of the next
-- page; who does not get a page asks for it again. Without a receipt it is no job but the
-- error text of a parcel: one that cannot be opened stays, of one that Redis has lost a
-- part of the rest is told.
--
-- The new generation refuses whatever of the old one is still on its way: error FENCED to
-- a resume that comes late itself, when the lease holds a later generation.
-- While registered, the fetcher may resume however long its lease is over.

local call = redis.call

if call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  if call('EXISTS', KEYS[4]) == 1 then return {'FENCED'} end
  return {'LOST'}
end
local holds = call('GET', KEYS[3])
if (tonumber(holds) or 0) > tonumber(ARGV[2]) then
  return redis.error_reply('FENCED the lease holds ' .. holds .. ', expected at most ' .. ARGV[2])
end
call('PERSIST', KEYS[2]) -- see room in take.lua
local t = call('TIME')
call('ZADD', KEYS[2], t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[3], ARGV[1])
call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])

-- Not by comparing text: that goes by the locale of the server.
local function older(a, b) return #a < #b or #a == #b and tonumber(a, 36) < tonumber(b, 36) end

local calls, held = {}, {}
for a = 6, #ARGV do calls[ARGV[a]] = true end
for k = 5, next(calls) and #KEYS or 0 do
  local fields = redis.pcall('HKEYS', KEYS[k])
  for _, field in ipairs(fields.err and {} or fields) do
    local first = string.match(field, '^[^+]*')
    if calls[string.sub(first, 1, -4)] then held[#held + 1] = {first, k, field} end
  end
end
table.sort(held, function(a, b)
  if a[1] == b[1] then return a[2] < b[2] or a[2] == b[2] and a[3] < b[3] end
  return older(a[1], b[1])
end)

local out, size, most, last = {'OK', ''}, 0, tonumber(ARGV[4]), ARGV[5]

local function tell(k, r)
  if not older(last, r) then return end
  local job = size < most and call('HGET', KEYS[k], r)
  if job then
    local o = #out
    out[o + 1], out[o + 2], out[o + 3] = tostring(k - 4), r, job
    size, last = size + #r + #job, r
  elseif size >= most then
    out[2] = 'more'
  end
end

-- Units of a parcel are told one by one, and held so from now on.
for _, unit in ipairs(held) do
  if out[2] ~= '' then break end
  local first, k, field = unit[1], unit[2], unit[3]
  if first == field then
    tell(k, first)
  elseif size >= most then
    out[2] = 'more'
  else
    local count = label(call('HGET', KEYS[k], field))
    local err, gone = open(KEYS[k], field, true) -- nobody has been handed a unit of it
    if gone and gone > 0 then err = 'redis has lost ' .. gone .. ' of ' .. count .. ' jobs that a call had taken' end
    if err then
      local o = #out
      out[o + 1], out[o + 2], out[o + 3] = tostring(k - 4), '', err
    end
    for x = 0, (count or 0) - 1 do
      tell(k, receipt(string.sub(first, 1, -4), tonumber(string.sub(first, -3), 36) + x))
    end
  end
end
return out
