-- Pushes the job of a tick on a cluster, once: numbers of an entry's ticks count up.
--
-- KEYS    1 the number that was pushed last, 2 list of the queue
-- ARGV    1 number, 2 job, 3 how long the number is remembered, in ms
-- returns 1, or 0 if this or a later one was pushed before
-- errors  those of the list: then nothing is done
if tonumber(redis.call('GET', KEYS[1]) or 0) >= tonumber(ARGV[1]) then return 0 end
redis.call('LPUSH', KEYS[2], ARGV[2])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return 1
