-- baton: which of the idle fetchers of a set of queues listens for a push. This
-- is the head of the scripts take and sit.
--
-- One of them has the baton, keeps its tracking armed and is woken by Redis. One
-- is its deputy: it is woken as well, but looks a moment later, in case that the
-- holder has died. The others stand in a line and cost nothing. Who has no more
-- use for the baton hands it to the first in the line who lives. A fetcher is
-- known by the name of a channel to which it alone is subscribed: there the
-- baton is announced, and the subscription, which ends with the process, is its
-- sign of life.
--
-- The line is sorted by the time of the last look, the deputy in front of all.
-- Its length tells those in it how often to look: see patience in sitting.go. It
-- keeps those whose last look is no longer ago than twice the longest patience.
--
-- All of it is a hint, and the baton expires: whoever was forgotten looks by
-- himself after a while. So nothing here may fail a script that has moved jobs.

local call, pcall = redis.call, redis.pcall

-- flags: s = the fetcher may have the baton or stand in the line; b = hand the
-- baton on if anybody wants it; l = this look came late, for want of a ring; e =
-- send an echo to prove that the subscription is heard; k = keep the baton as it
-- is if I have it: it was renewed a moment ago.
--
-- Returns 'hold', 'second', 'wait N' with the length of the line, or 'off'. room: the fetcher has use for more
-- jobs. got: how many it took now.
local function sit(baton, line, name, flags, room, got)
  local function has(flag) return string.find(flags, flag, 1, true) end
  if has('e') then pcall('PUBLISH', name, 'echo') end
  if not room and not has('s') then return 'off' end

  local function hand() -- to the deputy, or to the one whose last look is the longest ago
    while true do
      local to = pcall('ZPOPMIN', line)[1]
      if not to then return false end
      if to ~= name and pcall('PUBLISH', to, 'baton') ~= 0 then
        pcall('SET', baton, to, 'PX', 12000)
        return true
      end
    end
  end

  local function dead(who) return pcall('PUBSUB', 'NUMSUB', who)[2] == 0 end

  local holder = pcall('GET', baton)
  if type(holder) == 'table' then return room and 'hold' or 'off' end -- of the wrong type: each for himself
  if not room then
    if holder ~= name then
      pcall('ZREM', line, name)
    elseif not hand() then
      pcall('DEL', baton)
    end
    return 'off'
  end

  local mine
  if holder == name then
    mine = not (has('b') and got > 0 and hand())
  else -- who finds a job that long after its push does not trust the holder
    mine = not holder or got > 0 and has('l') or dead(holder)
  end

  if not mine then
    local t, front = call('TIME'), 1e13 -- a deputy's time is so much less
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    pcall('ZREMRANGEBYSCORE', line, '-inf', string.format('%.0f', now - 12000 - front))
    pcall('ZREMRANGEBYSCORE', line, 0, string.format('%.0f', now - 360000))
    local deputy = pcall('ZRANGEBYSCORE', line, '-inf', '(0', 'LIMIT', 0, 1)[1]
    if deputy and deputy ~= name and dead(deputy) then
      pcall('ZREM', line, deputy)
      deputy = nil
    end
    local second = not deputy or deputy == name
    local score = string.format('%.0f', second and now - front or now)
    if type(pcall('ZADD', line, score, name)) == 'number' then
      pcall('PEXPIRE', line, 360000)
      return second and 'second' or 'wait ' .. call('ZCARD', line)
    end
  elseif holder ~= name then
    pcall('ZREM', line, name)
    if holder then -- taken over: somebody may have to be the new deputy
      local first = pcall('ZRANGE', line, 0, 0)[1]
      if first then pcall('PUBLISH', first, 'second') end
    end
  end
  if holder ~= name or not has('k') then pcall('SET', baton, name, 'PX', 12000) end
  return 'hold'
end

