-- Adds one batch of job metrics, unless it was added before. A key that refuses
-- (of another type, or on a server without BITFIELD) does not keep the others.
-- KEYS: receipt, then one for each write
-- ARGV: batch number, TTL of the receipt (s), then for each write: command, TTL (s),
--       n, and n arguments: field, number, … for HINCRBY; those of one BITFIELD
-- Returns the first refusal, '' if there was none.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return ''
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
local refusal = ''
local function run(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then
    return true
  end
  if refusal == '' then
    refusal = reply.err
  end
  return false
end
local at = 3
for i = 2, #KEYS do
  local command, ttl, first = ARGV[at], ARGV[at + 1], at + 3
  local last = at + 2 + tonumber(ARGV[at + 2])
  local written
  if command == 'HINCRBY' then
    for j = first, last, 2 do
      written = run(command, KEYS[i], ARGV[j], ARGV[j + 1])
    end
  else
    written = run(command, KEYS[i], unpack(ARGV, first, last))
  end
  if written then
    run('EXPIRE', KEYS[i], ttl)
  end
  at = last + 1
end
return refusal
