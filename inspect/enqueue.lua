-- Moves members of a sorted set into queues: each one that is still there, the
-- destination first, since Redis keeps what a failed script has done. One that is to take
-- its lock stays if another job holds that.
--
-- KEYS    1 the set, 2 queues, 3.. one list per queue, then locks
-- ARGV    1 how many lists; for each lock the number of its member, counted through all lists,
--         the jid, and how long it lives, ms; then per list: name of the queue, n, (member, new bytes)×n
-- returns per list: a string with "1" for each member that was there, "0" for each that was gone,
--         and "2" for each whose lock is held; "" or the error of the list, whose members stay.
--         Then who holds the lock, for each "2"
local lists = tonumber(ARGV[1])
local locks, at = {}, 2
for k = 3 + lists, #KEYS do
  locks[tonumber(ARGV[at])] = {KEYS[k], ARGV[at + 1], ARGV[at + 2]}
  at = at + 3
end

-- take takes a lock, and returns who holds it if that is another job; taken has those that nobody held.
local function take(lock, taken)
  local r = redis.pcall('SET', lock[1], lock[2], 'NX', 'PX', lock[3])
  if type(r) == 'table' then -- of an error the push tells
    if not r.err then taken[#taken + 1] = lock end
    return nil
  end
  local holder = redis.pcall('GET', lock[1])
  if holder == lock[2] then
    redis.pcall('PEXPIRE', lock[1], lock[3])
    return nil
  end
  return type(holder) == 'string' and holder or ''
end

local out, holders, number = {}, {}, 0
for k = 3, 2 + lists do
  local name, n = ARGV[at], tonumber(ARGV[at + 1])
  local members, payloads, there, taken = {}, {}, {}, {}
  for i = 1, n do
    local member = ARGV[at + 2 * i]
    number = number + 1
    there[i] = '0'
    if redis.call('ZSCORE', KEYS[1], member) then
      local holder = locks[number] and take(locks[number], taken)
      if holder then
        there[i] = '2'
        holders[#holders + 1] = holder
      else
        there[i] = '1'
        members[#members + 1] = member
        payloads[#payloads + 1] = ARGV[at + 2 * i + 1]
      end
    end
  end
  at = at + 2 + 2 * n
  local fault = ''
  if #members > 0 then
    local pushed = redis.pcall('LPUSH', KEYS[k], unpack(payloads))
    if type(pushed) == 'table' then
      fault = pushed.err
      for _, lock in ipairs(taken) do redis.pcall('UNLINK', lock[1]) end
    else
      redis.pcall('SADD', KEYS[2], name) -- a list for people: the job moves even if that is broken
      redis.call('ZREM', KEYS[1], unpack(members))
    end
  end
  out[#out + 1] = table.concat(there)
  out[#out + 1] = fault
end
for _, holder in ipairs(holders) do out[#out + 1] = holder end
return out
