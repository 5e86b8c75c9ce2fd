-- Takes, renews or gives up one of the two seats from which the sets are
-- watched. A seat is a string that holds the identity of a process. It is free
-- when its lease has run out, and at once when its holder's connection is gone:
-- each watcher is subscribed to a channel of its own.
--
-- KEYS    1 the leader's seat, 2 the standby's, 3 processes; to renew a seat also
--         4, 5 the sets: reading them arms the connection's tracking
-- ARGV    1 identity, 2 lease in ms, 3 prefix of the channels, 4 "look", "take" or "leave"
-- returns {seat, number of processes}: with "look" a seat that may be taken,
--         with "take" the one that is now mine; 0 for none, -1 when the server
--         does not see my subscription. With the sets and a seat also {, whether
--         an echo was sent to my channel, score, score} with scores as in look
local me, verb = ARGV[1], ARGV[4]

local function subscribed(who)
  local n = redis.pcall('PUBSUB', 'NUMSUB', ARGV[3] .. who)
  return type(n) ~= 'table' or n.err or tonumber(n[2]) > 0 -- in doubt the lease decides
end

local processes = redis.pcall('SCARD', KEYS[3])
if type(processes) ~= 'number' then processes = 0 end

if verb == 'leave' then
  for i = 1, 2 do
    if redis.call('GET', KEYS[i]) == me then redis.call('DEL', KEYS[i]) end
  end
  return {0, processes}
end

local heard -- by how many
if KEYS[4] then heard = redis.pcall('PUBLISH', ARGV[3] .. me, 'echo') end
if heard == 0 or verb == 'take' and not heard and not subscribed(me) then return {-1, processes} end

for i = 1, 2 do
  local holder = redis.call('GET', KEYS[i])
  if not holder or holder == me or not subscribed(holder) then
    if verb == 'take' then
      redis.call('SET', KEYS[i], me, 'PX', ARGV[2])
      local other = KEYS[3 - i]
      if redis.call('GET', other) == me then redis.call('DEL', other) end
      if not KEYS[4] then return {i, processes} end
      local out = {i, processes, type(heard) == 'number' and 1 or 0}
      for k = 4, 5 do
        local first = redis.pcall('ZRANGE', KEYS[k], 0, 0, 'WITHSCORES')
        out[k] = (not first.err and first[2]) or ''
      end
      return out
    end
    return {i, processes}
  end
end
return {0, processes}
