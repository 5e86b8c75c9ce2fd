-- push appends jobs to a queue, and a token for each.
--
-- KEYS  ready, tokens
-- ARGV  jobs

redis.call('RPUSH', KEYS[1], unpack(ARGV))
local tokens = {}
for i = 1, #ARGV do tokens[i] = '1' end
return redis.call('RPUSH', KEYS[2], unpack(tokens))
