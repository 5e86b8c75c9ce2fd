-- The head of scripts that write to a dead set: bound removes from it what is too old and too
-- much, after an insertion. trim is 'BEFORE MAX' (limits.Trim), each empty if it is not bounded:
-- entries with a score up to BEFORE go, and all but the MAX - 1 newest, as Sidekiq has it. What it
-- fails at is worth less than the insertion and must not undo that.
local function bound(dead, trim)
  local before, max = string.match(trim, '^(%S*) (%S*)$')
  if before and before ~= '' then redis.pcall('ZREMRANGEBYSCORE', dead, '-inf', before) end
  if max and max ~= '' then redis.pcall('ZREMRANGEBYRANK', dead, 0, '-' .. max) end
end
