-- Looks at the first entry of two sorted sets without moving any bytes of it.
-- KEYS    retry, schedule[, processes]
-- returns {score, score, number of processes}; a score is "" for an empty set
--         and for a key of another type, which is reported by who promotes
local out = {}
for i = 1, 2 do
  local first = redis.pcall('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')
  out[i] = (not first.err and first[2]) or ''
end
out[3] = 0
if KEYS[3] then
  local n = redis.pcall('SCARD', KEYS[3])
  if type(n) == 'number' then out[3] = n end
end
return out
