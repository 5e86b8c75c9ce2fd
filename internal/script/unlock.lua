-- unlock frees the lock of a unique job, if that job holds it. What is in the way of that does not matter to
-- the step: the lock ends by itself.
local function unlock(lock, jid)
  if redis.pcall('GET', lock) == jid then redis.pcall('UNLINK', lock) end
end
