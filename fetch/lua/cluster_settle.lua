-- cluster_settle: moves units out of the fetcher's private place of one queue.
--
-- KEYS[1]  the queue
-- KEYS[2]  hash of what the fetcher has in progress from it; field ! is the fence
-- ARGV[1]  generation that the fence must hold
-- ARGV[2..] at most 500 moves of four: receipt; what to do (0 to the end of the
--          queue that is popped next, 1 to the other, 2 nowhere: its destination
--          in another slot has it, 3 only look); "1" to write the bytes of the
--          private place, else the bytes to write. Of those with 0 the last is
--          popped next, of those with 1 the first is popped first.
--
-- Returns per move "1" (it was there), "0" (it was not) or an error text; then
-- the unit is still in the private place. Error FENCED as in cluster_take.

local call, pcall = redis.call, redis.pcall
local queue, wip = KEYS[1], KEYS[2]

local fence = call('HGET', wip, '!')
if fence ~= ARGV[1] then
  return redis.error_reply('FENCED the fence holds ' .. tostring(fence) .. ', expected ' .. ARGV[1])
end
call('PERSIST', wip) -- see room in take.lua
if #ARGV == 1 then return {} end

local receipts, out = {}, {}
for at = 2, #ARGV, 4 do receipts[#receipts + 1] = ARGV[at] end
local held = call('HMGET', wip, unpack(receipts))

local groups, seen = {[0] = {}, {}, {}, {}}, {}
for m = 1, #receipts do
  if not held[m] or seen[receipts[m]] then
    out[m] = '0'
  else
    out[m] = '1'
    seen[receipts[m]] = true
    local group = groups[tonumber(ARGV[4 * m - 1])]
    group[#group + 1] = m
  end
end

for what = 0, 2 do
  local group, values, gone, err = groups[what], {}, {}, nil
  for k, m in ipairs(group) do
    values[k] = ARGV[4 * m] == '1' and held[m] or ARGV[4 * m + 1]
    gone[k] = receipts[m]
  end
  if #group > 0 then
    if what < 2 then -- the destination first
      local r = pcall(what == 0 and 'RPUSH' or 'LPUSH', queue, unpack(values))
      err = type(r) == 'table' and r.err
    end
    if err then
      for _, m in ipairs(group) do out[m] = err end
    else
      call('HDEL', wip, unpack(gone))
    end
  end
end
return out
