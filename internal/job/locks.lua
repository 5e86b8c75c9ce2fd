-- locks frees locks of unique jobs, or has them live longer, each only if its job holds it.
--
-- KEYS  locks
-- ARGV  per lock: jid of its job; how long it lives at least from now on, ms; 0 to free it
--
-- Returns how many were held by their jobs.

local held = 0
for i, lock in ipairs(KEYS) do
  local jid, ms = ARGV[2 * i - 1], ARGV[2 * i]
  if redis.pcall('GET', lock) == jid then
    held = held + 1
    if ms == '0' then
      redis.call('UNLINK', lock)
    elseif redis.call('PTTL', lock) < tonumber(ms) then
      redis.call('PEXPIRE', lock, ms)
    end
  end
end
return held
