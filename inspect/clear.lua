-- Deletes a queue with its jobs. It deletes only, so a Redis that is full carries it
-- out, as it does no MULTI.
--
-- KEYS    1 the list of the queue, 2 queues
-- ARGV    1 name of the queue
-- returns how many jobs there were
local n = redis.call('LLEN', KEYS[1])
redis.call('UNLINK', KEYS[1])
redis.call('SREM', KEYS[2], ARGV[1])
return n
