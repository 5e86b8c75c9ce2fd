-- Moves members of a sorted set into queues: each one that is still there, the
-- destination first, since Redis keeps what a failed script has done.
--
-- KEYS    1 the set, 2 queues, 3.. one list per queue
-- ARGV    per list: name of the queue, n, (member, new bytes)×n
-- returns per list: a string with "1" for each member that was there and "0" for
--         each that was gone; "" or the error of the list, whose members stay
local at, out = 1, {}
for k = 3, #KEYS do
  local name, n = ARGV[at], tonumber(ARGV[at + 1])
  local members, payloads, there = {}, {}, {}
  for i = 1, n do
    local member = ARGV[at + 2 * i]
    there[i] = '0'
    if redis.call('ZSCORE', KEYS[1], member) then
      there[i] = '1'
      members[#members + 1] = member
      payloads[#payloads + 1] = ARGV[at + 2 * i + 1]
    end
  end
  at = at + 2 + 2 * n
  local fault = ''
  if #members > 0 then
    local pushed = redis.pcall('LPUSH', KEYS[k], unpack(payloads))
    if type(pushed) == 'table' then
      fault = pushed.err
    else
      redis.pcall('SADD', KEYS[2], name) -- a list for people: the job moves even if that is broken
      redis.call('ZREM', KEYS[1], unpack(members))
    end
  end
  out[#out + 1] = table.concat(there)
  out[#out + 1] = fault
end
return out
