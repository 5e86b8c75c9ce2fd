-- cluster_take: acks units of one queue and takes new ones from it.
--
-- KEYS[1]  the queue
-- KEYS[2]  hash of what the fetcher has in progress from it; field ! is the fence
-- ARGV[1]  generation that the fence must hold
-- ARGV[2]  prefix of this call's receipts; three base 36 digits follow it
-- ARGV[3]  how many units to take, 0..2560
-- ARGV[4]  bytes, 1 or more: the unit that reaches them is the last one
-- ARGV[5..] receipts of acks
--
-- Returns {how many are left in the queue, error text or "", job*}, the jobs in
-- the order of their receipts, which count up from prefix00. Error FENCED when
-- the fence holds another generation or none.
--
-- As in take.lua the job stands in the hash before it leaves the queue.

local call, pcall, char, floor = redis.call, redis.pcall, string.char, math.floor
local queue, wip = KEYS[1], KEYS[2]

local fence = pcall('HGET', wip, '!')
if type(fence) == 'table' and fence.err then return {'0', fence.err} end
if fence ~= ARGV[1] then
  return redis.error_reply('FENCED the fence holds ' .. tostring(fence) .. ', expected ' .. ARGV[1])
end
call('PERSIST', wip) -- see room in take.lua

for first = 5, #ARGV, 1000 do
  call('HDEL', wip, unpack(ARGV, first, math.min(first + 999, #ARGV)))
end

local function left(err)
  local n = pcall('LLEN', queue)
  if type(n) ~= 'number' then return '0', err ~= '' and err or n.err end
  return tostring(n), err
end

local n = tonumber(ARGV[3])
if n == 0 then return {left('')} end

local prefix = ARGV[2]
local function digit(x) return x < 10 and 48 + x or 87 + x end
local function receipt(x)
  return prefix .. char(digit(floor(x / 1296)), digit(floor(x / 36) % 36), digit(x % 36))
end

-- A client that silently repeats the call gets what its first run took.
if call('HEXISTS', wip, receipt(0)) == 1 then
  local out = {left('')}
  for x = 0, n - 1 do
    local job = call('HGET', wip, receipt(x))
    if not job then break end
    out[#out + 1] = job
  end
  return out
end

local jobs, _, err = bite(queue, 0, n, tonumber(ARGV[4]))
if err then return {'0', err} end
local taken = 0
while taken < #jobs do -- oldest first: the right end is the next in turn
  local fields, upto = {}, math.min(taken + 500, #jobs)
  for j = taken + 1, upto do
    fields[#fields + 1], fields[#fields + 2] = receipt(j - 1), jobs[j]
  end
  call('HSET', wip, unpack(fields))
  taken = upto
end
if taken > 0 then call('LTRIM', queue, 0, -taken - 1) end
local out = {left('')}
for j = 1, taken do out[#out + 1] = jobs[j] end
return out
