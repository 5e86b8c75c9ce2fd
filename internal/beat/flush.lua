-- Adds one batch of counts to the totals, unless it was added before.
-- KEYS: receipt, processed, processed of the day, failed, failed of the day
-- ARGV: batch number, TTL of the receipt (s), processed, failed, TTL of a day (s)
-- Returns 1 if the batch was added, 0 if it had been.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return 0
end
-- The receipt comes first: should a total be of a wrong type, the step ends
-- there, and a repetition would add the others again.
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
for i = 0, 1 do
  local total, day, n = KEYS[2 + 2 * i], KEYS[3 + 2 * i], ARGV[3 + i]
  redis.call('INCRBY', total, n)
  redis.call('INCRBY', day, n)
  redis.call('EXPIRE', day, ARGV[5])
end
return 1
