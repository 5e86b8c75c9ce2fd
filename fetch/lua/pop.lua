-- pop: takes jobs out of queues for good, by wants.
--
-- KEYS[i]   queue i
-- ARGV[1]   how many to take
-- ARGV[2..] (queue i, how many in pass 1)*
--
-- Returns what take returns.

local out, got, dry = {}, 0, {}
local n = tonumber(ARGV[1])

local function take(i, want)
  local jobs = redis.pcall('RPOP', KEYS[i], want) or {} -- oldest first; nothing for no such queue
  if jobs.err then
    dry[i] = true
    out[#out + 1] = -i
    out[#out + 1] = jobs.err
    return
  end
  if #jobs < want then dry[i] = true end
  if #jobs == 0 then return end
  out[#out + 1] = i
  out[#out + 1] = #jobs
  for j = 1, #jobs do out[#out + 1] = jobs[j] end
  got = got + #jobs
end

for k = 2, #ARGV, 2 do
  if got == n then return out end
  local want = math.min(tonumber(ARGV[k + 1]), n - got)
  if want > 0 then take(tonumber(ARGV[k]), want) end
end
for k = 2, #ARGV, 2 do
  if got == n then break end
  local i = tonumber(ARGV[k])
  if not dry[i] then take(i, n - got) end
end
return out
