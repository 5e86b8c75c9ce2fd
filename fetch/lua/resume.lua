-- resume: begins a new generation after a call whose outcome is not known, and
-- tells what that call took.
--
-- KEYS[1]  registry
-- KEYS[2]  index of leases
-- KEYS[3]  lease of the fetcher
-- KEYS[4]  tombstone of the fetcher
-- KEYS[5..] hashes of what it has in progress, by queue
-- ARGV[1]  fetcher id
-- ARGV[2]  new generation
-- ARGV[3]  time to live of the lease, ms
-- ARGV[4..] receipts that the failed calls could have made
--
-- Returns {"FENCED"} when a rescuer has taken over, {"LOST"} when Redis has
-- forgotten the fetcher, else {"OK", (queue index from 1, receipt, job)*}.
--
-- The new generation refuses whatever of the old one is still on its way.
-- While registered, the fetcher may resume however long its lease is over.

local call = redis.call

if call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  if call('EXISTS', KEYS[4]) == 1 then return {'FENCED'} end
  return {'LOST'}
end
call('PERSIST', KEYS[2]) -- see room in take.lua
local t = call('TIME')
call('ZADD', KEYS[2], t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[3], ARGV[1])
call('SET', KEYS[3], ARGV[2], 'PX', ARGV[3])

-- What those calls took is told unit by unit, and held so from now on.
local calls = {}
for k = 4, #ARGV do calls[string.sub(ARGV[k], 1, -4)] = true end
for k = 5, next(calls) and #KEYS or 0 do
  for _, field in ipairs(parcels(KEYS[k])) do
    if calls[string.sub(field, 1, -5)] then open(KEYS[k], field) end
  end
end

local out = {'OK'}
for first = 4, #ARGV, 1000 do
  local last = math.min(first + 999, #ARGV)
  for k = 5, #KEYS do
    local jobs = redis.pcall('HMGET', KEYS[k], unpack(ARGV, first, last))
    if not jobs.err then
      for j = 1, last - first + 1 do
        if jobs[j] then
          out[#out + 1] = tostring(k - 4)
          out[#out + 1] = ARGV[first + j - 1]
          out[#out + 1] = jobs[j]
        end
      end
    end
  end
end
return out
