-- look lists the owners whose entry in the index is over.
--
-- KEYS[1]  index of expiries
-- ARGV[1]  how many entries to look at, the oldest first
--
-- Returns {ms until the next one of them is over, -1 for none; id*}.

local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local out = {'-1'}
local found = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  local left = tonumber(found[i + 1]) - now
  if left > 0 then
    out[1] = string.format('%d', left)
    break
  end
  out[#out + 1] = found[i]
end
return out
