-- Takes or renews the leader's lock and tells what is due by the clock of Redis.
-- The lock is a string that holds the identity of the leader. The one process that
-- waits for its end has a second lock.
--
-- KEYS    1 the leader's lock, 2 the standby's, 3.. the sets
-- ARGV    1 identity; "" if no lock is wanted
--         2 life of the leader's lock in ms; 0 gives both locks up and does nothing else
--         3 life of the standby's lock in ms
--         4 how far ahead the next score is wanted, in s; 0 for any
--         5 members wanted of each set at most, 6 their bytes at most: the first comes
--         whatever its size; with 0 members the reply holds none, and if a lock is
--         wanted tells of the sets only the leader, unless none of them is there
--         7 due members to leave out, those with the lowest scores
--         8 "1" for the members with the highest scores, highest first; else "0"
--         9.. of each set the lowest score, as ZRANGE takes it: "-inf", "1.5", "(1.5"
-- returns {role, ms, now, {fault, next, size, more, member...} for each set}, with '' for
--         now where it tells of no set
--         role is 2 for the leader, 1 for the standby, 0 for others; ms is the rest of
--         the leader's lock if another process has it; now is in s;
--         fault is "" or the error of that set; next is the lowest score after now, ""
--         if there is none so far ahead; size is the length of the first due member,
--         0 if none is due; more is 1 if more are due than the reply holds
-- errors  WRONGTYPE of a lock; a lock without end is taken by whoever asks
--
-- Out of memory Redis refuses a script's first write that needs some. So a DEL goes
-- before each SET.
local me, role, left = ARGV[1], 0, 0
if me ~= '' and ARGV[2] == '0' then
  for i = 1, 2 do
    if redis.call('GET', KEYS[i]) == me then redis.call('DEL', KEYS[i]) end
  end
  return {0, 0, '0'}
end
if me ~= '' then
  local life = {ARGV[2], ARGV[3]}
  for i = 1, 2 do
    local holder = redis.call('GET', KEYS[i])
    local rest = holder and holder ~= me and redis.call('PTTL', KEYS[i]) or -1
    if i == 1 then left = math.max(0, rest) end
    if holder == me then
      redis.call('PEXPIRE', KEYS[i], life[i])
    elseif rest < 0 then
      redis.call('DEL', KEYS[i])
      redis.call('SET', KEYS[i], me, 'PX', life[i])
      if i == 1 and redis.call('GET', KEYS[2]) == me then redis.call('DEL', KEYS[2]) end
    end
    if holder == me or rest < 0 then
      role = 3 - i
      break
    end
  end
end

local count, budget, skip, newest = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == '1'
if me ~= '' and count == 0 and (role < 2 or redis.call('EXISTS', unpack(KEYS, 3)) == 0) then
  return {role, left, ''}
end

local t = redis.call('TIME')
local now = t[1] .. '.' .. string.format('%06d', tonumber(t[2]))
local till = ARGV[4] == '0' and '+inf' or string.format('%.6f', tonumber(now) + tonumber(ARGV[4]))
local function is_due(score)
  return score == '-inf' or score ~= 'inf' and tonumber(score) <= tonumber(now)
end

-- Appends members to out, within count and budget. It reads a few at a time, so that
-- what goes beyond the budget is little.
local function collect(out, set, from)
  local total = redis.call('ZCOUNT', set, from, now)
  if not newest then total = total - skip end
  local n, bytes, step, full = 0, 0, 1, false
  while n < math.min(count, total) and not full do
    local page
    if newest then
      page = redis.call('ZRANGE', set, now, from, 'BYSCORE', 'REV', 'LIMIT', n, step)
    else
      page = redis.call('ZRANGE', set, from, now, 'BYSCORE', 'LIMIT', skip + n, step)
    end
    for _, member in ipairs(page) do
      full = n > 0 and bytes + #member > budget
      if full then break end
      n = n + 1
      bytes = bytes + #member
      out[4 + n] = member
    end
    full = full or bytes >= budget
    if not full then
      step = math.min(2 * step, 32, count - n, 1 + math.floor((budget - bytes) * n / math.max(1, bytes)))
    end
  end
  if n < total then out[4] = 1 end
end

local out = {role, left, now}
for i = 3, #KEYS do
  local set, from = KEYS[i], ARGV[6 + i]
  local found = {'', '', 0, 0}
  local first = redis.pcall('ZRANGE', set, from, till, 'BYSCORE', 'LIMIT', skip, 1, 'WITHSCORES')
  if first.err then
    found[1] = first.err
  elseif first[1] and not is_due(first[2]) then
    found[2] = first[2]
  elseif first[1] then
    found[3] = #first[1]
    local later = redis.call('ZRANGE', set, '(' .. now, till, 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    found[2] = later[2] or ''
    if count > 0 then collect(found, set, from) else found[4] = 1 end
  end
  out[#out + 1] = found
end
return out
