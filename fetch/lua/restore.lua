-- restore writes jobs back that Redis has forgotten. Behind enter.
--
-- KEYS[2]  list
-- ARGV[3]  its field, ARGV[4] what the index says of it if it knows nothing
-- ARGV[5..] the jobs, the newest first

call('HSETNX', index, ARGV[3], ARGV[4])
call('RPUSH', KEYS[2], unpack(ARGV, 5))
confirm()
return {'1'}
