-- unlap: puts jobs that no fetcher has taken out of laps back into their queues.
--
-- KEYS  (queue, lap)*
--
-- Returns {how many went back, (queue, error text)*}. At most 1000 of a lap go at once.
--
-- Nobody owns a lap: a fetcher that was just about to take one of the jobs finds
-- it in the queue. The newest goes first, so that the oldest is popped next, and
-- each job stands in its queue before it leaves the lap.

local pcall = redis.pcall
local out = {0}

for k = 1, #KEYS, 2 do
  local queue, lap = KEYS[k], KEYS[k + 1]
  pcall('PERSIST', lap) -- see room in take.lua
  local jobs = pcall('LRANGE', lap, 0, 999)
  local r = jobs
  if not jobs.err and #jobs > 0 then
    r = pcall('RPUSH', queue, unpack(jobs))
    if type(r) == 'number' then
      redis.call('LTRIM', lap, #jobs, -1)
      out[1] = out[1] + #jobs
    end
  end
  if type(r) == 'table' and r.err then
    out[#out + 1] = queue
    out[#out + 1] = r.err
  end
end
return out
