-- again puts a failed job back into its queue, once.
--
-- KEYS  set of failed jobs, ready, tokens
-- ARGV  its row, the job

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.pcall('RPUSH', KEYS[3], '1')
return redis.call('ZREM', KEYS[1], ARGV[1])
