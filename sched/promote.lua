-- Moves one batch of due members. A member that is no longer in the set is left
-- out: somebody else has moved it. Every destination is written before the
-- member is removed, since Redis keeps what a failed script has done.
--
-- KEYS    1 the set, 2 queues, 3 dead, 4.. one list per queue
-- ARGV    1 score of a death, 2 and 3 the trim of dead (oldest score, number)
--         then to dead:   n, member × n
--         then dropped:   n, member × n
--         then per list:  name of the queue, n, member × n, payload × n
-- returns {buried, dropped, fault of dead, (moved, fault)×lists}; a fault is ""
--         or the error of the one destination that refused, whose members stay;
--         with a moved above 0 it is the error of queues
local set = KEYS[1]
local at = 4

-- reads a section; keeps of members (and payloads) those still in the set
local function present(with_payloads)
  local n = tonumber(ARGV[at])
  local members, payloads = {}, {}
  if n > 0 then
    local all = {}
    for i = 1, n do all[i] = ARGV[at + i] end
    local scores = redis.call('ZMSCORE', set, unpack(all))
    for i = 1, n do
      if scores[i] then
        members[#members + 1] = all[i]
        if with_payloads then payloads[#payloads + 1] = ARGV[at + n + i] end
      end
    end
  end
  at = at + 1 + n
  if with_payloads then at = at + n end
  return members, payloads
end

local function fault(reply)
  return type(reply) == 'table' and reply.err or ''
end

local out = {0, 0, ''}

local dying = present(false)
if #dying > 0 then
  local add = {}
  for i = 1, #dying do
    add[2 * i - 1] = ARGV[1]
    add[2 * i] = dying[i]
  end
  out[3] = fault(redis.pcall('ZADD', KEYS[3], unpack(add)))
  if out[3] == '' then
    redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', ARGV[2])
    redis.call('ZREMRANGEBYRANK', KEYS[3], 0, '-' .. ARGV[3])
    out[1] = redis.call('ZREM', set, unpack(dying))
  end
end

local dropped = present(false)
if #dropped > 0 then out[2] = redis.call('ZREM', set, unpack(dropped)) end

for k = 4, #KEYS do
  local name = ARGV[at]
  at = at + 1
  local members, payloads = present(true)
  local moved, refused = 0, ''
  if #members > 0 then
    -- queues is a list for people: the job moves even if that is broken
    local unlisted = fault(redis.pcall('SADD', KEYS[2], name))
    refused = fault(redis.pcall('LPUSH', KEYS[k], unpack(payloads)))
    if refused == '' then
      moved = redis.call('ZREM', set, unpack(members))
      refused = unlisted
    end
  end
  out[#out + 1] = moved
  out[#out + 1] = refused
end
return out
