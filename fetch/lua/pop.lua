-- pop: takes jobs out of queues for good, by wants.
--
-- KEYS[1]   set of paused queues, by bare name
-- KEYS[i+1] queue i
-- ARGV[1]   how many to take; 0 to ask which queues are paused
-- ARGV[2]   bytes, 1 or more: the job that reaches them is the last one
-- ARGV[3..] (queue i, how many in pass 1)*
--
-- Returns what take returns.

local out, got, dry = {}, 0, {}
local n, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])

-- One command while nothing is paused; a key of another type pauses nothing.
if redis.call('EXISTS', KEYS[1]) == 1 then
  for i = 1, #KEYS - 1 do
    if redis.pcall('SISMEMBER', KEYS[1], string.sub(KEYS[i + 1], 7)) == 1 then -- behind "queue:"
      dry[i] = true
      out[#out + 1] = -i
      out[#out + 1] = ''
    end
  end
end

local function take(i, want)
  local jobs, size, err = bite(KEYS[i + 1], 0, want, bytes)
  if err then
    dry[i] = true
    out[#out + 1] = -i
    out[#out + 1] = err
    return
  end
  if #jobs < want then dry[i] = true end
  if #jobs == 0 then return end
  redis.call('LTRIM', KEYS[i + 1], 0, -#jobs - 1)
  bytes = bytes - size
  out[#out + 1] = i
  out[#out + 1] = #jobs
  for j = 1, #jobs do out[#out + 1] = jobs[j] end
  got = got + #jobs
end

for k = 3, #ARGV, 2 do
  if got == n or bytes <= 0 then break end
  local i, want = tonumber(ARGV[k]), math.min(tonumber(ARGV[k + 1]), n - got)
  if want > 0 and not dry[i] then take(i, want) end
end
for k = 3, #ARGV, 2 do
  if got == n or bytes <= 0 then break end
  local i = tonumber(ARGV[k])
  if not dry[i] then take(i, n - got) end
end
return out
