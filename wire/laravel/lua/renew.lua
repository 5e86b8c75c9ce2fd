-- renew extends the lease of jobs.
--
-- KEYS[1]  list of the fetcher
-- KEYS[2..] per queue: reserved
-- ARGV     seconds to live of KEYS[1], end of the lease; per job: queue, copy
--
-- Returns the numbers, from 0, of the jobs that are not reserved any more.

if redis.call('EXPIRE', KEYS[1], ARGV[1]) == 0 then return redis.error_reply('FORGOT the list of the fetcher is gone') end
local lost = {}
for i = 3, #ARGV, 2 do
  local job, reserved = (i - 3) / 2, KEYS[2 + ARGV[i]]
  local held = redis.pcall('ZSCORE', reserved, ARGV[i + 1])
  if not held then
    lost[#lost + 1] = job
  elseif type(held) == 'string' then
    redis.pcall('ZADD', reserved, 'XX', string.format('%.6f', ARGV[2] + job * 1e-6), ARGV[i + 1])
  end
end
return lost
