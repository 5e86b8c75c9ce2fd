-- Moves one batch of due members. A member that is no longer in the set, or no longer
-- due there, is left out: somebody else has moved it, or put it off. Every
-- destination is written before the member is removed, since Redis keeps what a
-- failed script has done.
--
-- KEYS    1 the set, 2 queues, 3 dead, 4.. one list per queue
-- ARGV    1 score of a death, 2 the trim of dead, see bound
--         then to dead:   n, member × n, payload × n
--         then dropped:   n, member × n
--         then per list:  name of the queue, n, member × n, payload × n
-- returns {dead, fault of dead, dropped, "", (moved, fault) for each list}; a fault
--         is "" or the error of the one destination that refused, whose members stay;
--         with a moved above 0 it is the error of queues
-- errors  WRONGTYPE of the set
--
-- Out of memory Redis refuses a script's first write that needs some. So the first
-- write removes nothing: what is moved needs no more memory than before.
local set = KEYS[1]
local at = 3
redis.call('ZREMRANGEBYSCORE', set, '(0', '(0')
local t = redis.call('TIME')
local now = tonumber(t[1] .. '.' .. string.format('%06d', tonumber(t[2])))

local function is_due(score)
  return score and (score == '-inf' or score ~= 'inf' and tonumber(score) <= now)
end

-- Reads a section: n members, and n payloads behind them if it has some. Returns
-- the members that are to be moved and what is to be written for them, each as a
-- table with its first and last index. Mostly nothing is missing, then both are the
-- arguments as they stand.
local function section(with_payloads)
  local n, first = tonumber(ARGV[at]), at + 1
  local second = with_payloads and first + n or first
  at = second + n
  if n == 0 then return nil end
  local scores = redis.call('ZMSCORE', set, unpack(ARGV, first, first + n - 1))
  local all = true
  for i = 1, n do
    if not is_due(scores[i]) then all = false break end
  end
  if all then return {ARGV, first, first + n - 1}, {ARGV, second, second + n - 1} end
  local members, payloads = {}, {}
  for i = 1, n do
    if is_due(scores[i]) then
      members[#members + 1] = ARGV[first + i - 1]
      payloads[#payloads + 1] = ARGV[second + i - 1]
    end
  end
  if #members == 0 then return nil end
  return {members, 1, #members}, {payloads, 1, #payloads}
end

local function fault(reply)
  return type(reply) == 'table' and reply.err or ''
end

local function remove(members) return redis.call('ZREM', set, unpack(unpack(members))) end

local out = {0, '', 0, ''}

local dying, texts = section(true)
if dying then
  local add = {}
  for i = texts[2], texts[3] do
    add[#add + 1] = ARGV[1]
    add[#add + 1] = texts[1][i]
  end
  out[2] = fault(redis.pcall('ZADD', KEYS[3], unpack(add)))
  if out[2] == '' then
    bound(KEYS[3], ARGV[2])
    out[1] = remove(dying)
  end
end

local dropped = section(false)
if dropped then out[3] = remove(dropped) end

for k = 4, #KEYS do
  local name = ARGV[at]
  at = at + 1
  local members, payloads = section(true)
  local moved, refused = 0, ''
  if members then
    -- queues is a list for people: the job moves even if that is broken
    local unlisted = fault(redis.pcall('SADD', KEYS[2], name))
    refused = fault(redis.pcall('LPUSH', KEYS[k], unpack(unpack(payloads))))
    if refused == '' then
      moved = remove(members)
      refused = unlisted
    end
  end
  out[#out + 1] = moved
  out[#out + 1] = refused
end
return out
