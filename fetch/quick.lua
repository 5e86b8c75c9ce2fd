-- quick: the whole take of an idle fetcher that has the baton, where jobs come one by
-- one. This is the head of take.lua, whose keys and arguments these are.
--
-- A job waits for this script, and in a Redis that has just woken up each command and each
-- number that becomes a string takes microseconds. So it comes before all else, and does
-- without what it can: nothing is in progress or paused, no queue has more than one job, and
-- these are fewer than what is asked for, in number and in bytes. Else it leaves everything as it is.

local call, pcall = redis.call, redis.pcall

-- One command checks the fence and extends the lease.
local lease = call('GETEX', KEYS[1], 'PX', ARGV[2])
if lease ~= ARGV[1] then
  return redis.error_reply('FENCED the lease holds ' .. tostring(lease) .. ', expected ' .. ARGV[1])
end

if ARGV[7] == 'skq' then
  local queues, last, size = #KEYS / 2 - 2, #ARGV, 0
  local found = call('EXISTS', unpack(KEYS, 2, queues + 2)) == 0 and pcall('GET', KEYS[#KEYS - 1]) == ARGV[6] and {}
  for k = 12, found and last or 0, 2 do
    local jobs = pcall('LRANGE', KEYS[queues + 2 + ARGV[k]], '-2', '-1')
    size = size + (jobs[1] and #jobs[1] or 0)
    if jobs.err or jobs[2] or size >= tonumber(ARGV[11]) then
      found = nil
      break
    end
    found[ARGV[k]] = jobs[1]
  end
  if found then
    local out, got = {}, 0
    for k = 12, last, 2 do
      local job = found[ARGV[k]]
      if job then
        local i, o = tonumber(ARGV[k]), #out
        local r = pcall('HSET', KEYS[i + 1], ARGV[3] .. (got == 0 and '000' or '00' .. got), job)
        if type(r) == 'number' then
          call('LTRIM', KEYS[queues + 2 + i], '1', '0')
          out[o + 1], out[o + 2], out[o + 3] = i, 1, job
          got, found[ARGV[k]] = got + 1, nil
        else
          out[o + 1], out[o + 2] = -i, r.err
        end
      end
    end
    out[#out + 1], out[#out + 2] = 0, 'hold'
    pcall('EXISTS', unpack(KEYS, queues + 2, 2 * queues + 2))
    return out
  end
end

