-- pop takes jobs out of queues for good.
--
-- KEYS[1]  set of paused queues
-- KEYS[2..] queues
-- ARGV[1]  how many to take
-- ARGV[2]  how many bytes: the job that reaches them is the last one
-- ARGV[3..] per queue: its name in the set of paused ones, how many in pass 1
--
-- Returns what take returns, as text, with '' for the field.

local out, dry = {}, {}
local n, bytes = tonumber(ARGV[1]), tonumber(ARGV[2])
local pauses = redis.call('EXISTS', KEYS[1]) == 1

local function say(...)
  for _, v in ipairs({...}) do out[#out + 1] = v end
end

local function grab(q, want)
  if dry[q] or want <= 0 then return end
  if pauses and redis.pcall('SISMEMBER', KEYS[1], ARGV[1 + 2 * q]) == 1 then
    dry[q] = true
    return say('p', q)
  end
  say('c', '', q, 0)
  local at = #out
  while want > 0 and bytes > 0 do
    local job = redis.pcall('RPOP', KEYS[1 + q])
    if type(job) ~= 'string' then
      dry[q] = true
      if type(job) == 'table' then say('e', q, job.err) end
      break
    end
    out[at] = out[at] + 1
    out[#out + 1] = job
    bytes, n, want = bytes - #job, n - 1, want - 1
  end
end

for q = 1, #KEYS - 1 do grab(q, math.min(n, tonumber(ARGV[2 + 2 * q]))) end
for q = 1, #KEYS - 1 do grab(q, n) end
for i, v in ipairs(out) do out[i] = type(v) == 'number' and string.format('%d', v) or v end
return out
