-- Removes unique jobs from a list or a sorted set, each one that is still there, and frees their locks.
--
-- KEYS    1 the list or set, 2.. the lock of each job
-- ARGV    1 "set"; "head" or "tail" of a list: from where it is looked for; 2.. pairs of a job and its jid
-- returns a string with "1" for each job that was there, "0" for the others
local there = {}
for k = 2, #KEYS do
  local job, jid, n = ARGV[2 * k - 2], ARGV[2 * k - 1], nil
  if ARGV[1] == 'set' then
    n = redis.call('ZREM', KEYS[1], job)
  else
    n = redis.call('LREM', KEYS[1], ARGV[1] == 'head' and 1 or -1, job)
  end
  there[k - 1] = tostring(n)
  if n > 0 then unlock(KEYS[k], jid) end
end
return table.concat(there)
