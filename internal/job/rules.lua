-- rules is the head of the scripts that know limits: settle, admit and letin. Behind call, pcall and text.
--
-- A rule is NAME:KEY, a limit and what it counts together. BASE begins the keys, which are no KEYS: on a cluster they are in
-- the slot of their queue.
-- BASElimits      hash: NAME -> 'N' (so many at once) or 'DEPTH SECONDS' (one in so many seconds, after a pause DEPTH; 0 seconds:
--                 as many as come). Words may follow: 'breaker FAILURES SECONDS', how many failures in a row open its breaker, 0
--                 for none, and for how long. A limit that is not there lets nobody in
-- BASEslots:RULE  zset: jid -> when its slot ends, in whole seconds, which are cheap to compare; of a rate those that were let
--                 in and have not started yet
-- BASErate:RULE   when all tokens of a rate are back, in seconds
-- BASErest:RULE   hash of a rule with a breaker: failures, in a row; ends, in seconds, while the breaker is open: nobody is let in
--                 before, and then one job, the probe, which moves ends on; ~JID of a probe: the ends that it has set
-- BASEheld:RULE   zset of the jobs that the rule holds: 'SEQ HEADER\nBYTES', the oldest first. HEADER is a JSON array: key of
--                 the list that the job goes to, name of the queue if it may be new to the set of all queues, else '', jid, rules
-- BASEheld        zset of the rules that hold jobs, by when the leader looks at them

local native, rules, inOrder, defs, clock = _G.pcall, {}, {}, {}, nil

local function now()
  if not clock then
    local t = call('TIME')
    clock = t[1] + t[2] / 1000000
  end
  return clock
end

local function stamp(seconds) return string.format('%.6f', seconds) end

-- ending is when a slot ends that lives for so many seconds.
local function ending(seconds) return string.format('%.0f', math.ceil(now() + seconds)) end

local function numeric(reply) return type(reply) ~= 'table' and tonumber(reply or nil) or 0 end

local function rule(base, id)
  local r = rules[id]
  if not r then
    local name, key = string.match(id, '^([^:]*):?(.*)$')
    local d = defs[base .. name]
    if not d then
      local def = pcall('HGET', base .. 'limits', name)
      def = type(def) == 'string' and def or ''
      local limit, every = string.match(def, '^([%d.]+) ?([%d.]*)')
      local failures, pause = string.match(def, ' breaker (%d+) ([%d.]+)')
      d = {limit = tonumber(limit) or 0, every = tonumber(every), failures = tonumber(failures), pause = tonumber(pause)}
      d.throttled = string.find(def, ' throttled', 1, true)
      defs[base .. name] = d
    end
    r = {base = base, id = id, coming = 0, look = 5, limit = d.limit, every = d.every}
    r.way = r.every == 0 and 16 or r.limit -- of a rate: how many are let in from the held ones and have not started
    r.slots, r.held, r.rate, r.rest = base .. 'slots:' .. id, base .. 'held:' .. id, base .. 'rate:' .. id, base .. 'rest:' .. id
    r.failures, r.pause = d.failures, d.pause -- nil without a breaker
    if d.throttled then -- as the gem sidekiq-throttled names them
      r.slots = 'throttled:' .. string.gsub(name, '%%3A', ':') .. ':concurrency.v2' .. (key ~= '' and ':' .. key or '')
      r.look = 0.1 -- Ruby's jobs leave unseen
    end
    rules[id], inOrder[#inOrder + 1] = r, r
  end
  return r
end

-- ends is when the rest of a rule ends, or has ended and waits for a probe; 0 if its breaker is closed.
local function ends(r)
  r.ends = r.ends or r.failures and numeric(pcall('HGET', r.rest, 'ends')) or 0
  return r.ends
end

-- room is how many jobs may enter beside those that this call is about to let in (coming). Slots that have ended are looked for
-- when there is none.
local function room(r)
  if r.n and (r.n > 0 or r.swept) then return r.n end
  if r.n then
    r.swept = true
    pcall('ZREMRANGEBYSCORE', r.slots, '-inf', stamp(now()))
  end
  r.count = numeric(pcall('ZCARD', r.slots))
  r.n = r.limit - r.count - r.coming
  if r.every then
    r.back = math.max(numeric(pcall('GET', r.rate)), now())
    r.n = math.min(r.n + r.coming, math.floor((r.every > 0 and (now() - r.back) / r.every or 0) + r.limit + 0.000001) - r.coming)
  end
  if ends(r) > 0 then r.n = ends(r) > now() and 0 or math.min(r.n, 1 - r.coming) end
  return room(r)
end

-- has tells whether a job was let in before; while the breaker is open, whether it is the probe.
local function has(r, jid)
  if ends(r) > 0 then return numeric(pcall('HGET', r.rest, '~' .. jid)) == r.ends end
  room(r)
  return r.count > 0 and type(pcall('ZSCORE', r.slots, jid)) == 'string'
end

local function again(r) r.n, r.swept = nil, nil end

-- rest opens the breaker of a rule until then, or moves the end; with a jid that job is the probe.
local function rest(r, at, jid)
  r.ends = tonumber(stamp(at))
  pcall('HSET', r.rest, 'ends', stamp(at))
  if jid then pcall('HSET', r.rest, '~' .. jid, stamp(at)) end
  pcall('HDEL', r.rest, 'failures')
  pcall('PEXPIRE', r.rest, string.format('%.0f', (math.max(0, at - now()) + 3600) * 1000))
  again(r)
end

-- close closes the breaker of a rule.
local function close(r)
  pcall('DEL', r.rest)
  r.ends = 0
  again(r)
end

-- learn takes note of how the job of a rule has ended: 'ok', 'failed', 'rest SECONDS', or '' for what tells nothing. Returns what
-- became of the breaker: 'opened', 'again' if it was open, or 'closed'; nil if nothing did.
local function learn(r, jid, said)
  if not r.failures then return end
  local open = ends(r) > 0
  local probe, asked = open and pcall('HDEL', r.rest, '~' .. jid) == 1, tonumber(string.match(said, '^rest ([%d.]+)$') or nil)
  local at = nil
  if asked then
    at = math.max(now() + asked, ends(r))
  elseif said == 'failed' and probe then
    at = math.max(now() + r.pause, ends(r))
  elseif said == 'failed' and not open and r.failures > 0 then
    r.counted = true
    if numeric(pcall('HINCRBY', r.rest, 'failures', '1')) >= r.failures then at = now() + r.pause end
    pcall('PEXPIRE', r.rest, string.format('%.0f', (r.pause + 3600) * 1000))
  elseif said == 'ok' and probe then
    close(r)
    return 'closed'
  elseif said == 'ok' and not open and r.counted ~= false then
    pcall('HDEL', r.rest, 'failures')
    r.counted = false
  end
  if not at then return end
  rest(r, at)
  return open and 'again' or 'opened'
end

-- spend takes n tokens of a rate.
local function spend(r, n)
  if r.every == 0 then return end
  r.back = r.back + n * r.every
  return text(pcall('SET', r.rate, stamp(r.back), 'PX', string.format('%.0f', (r.back - now()) * 1000 + 1000)))
end

-- give gives slots, as arguments of ZADD. Each has an end of its own. Their key lives for a week, which beats renew: a key of the
-- gem's must not end before the gem's own slots.
local function give(r, slots)
  local err
  for i = 1, #slots, 500 do
    err = err or text(pcall('ZADD', r.slots, unpack(slots, i, math.min(i + 499, #slots))))
  end
  pcall('PEXPIRE', r.slots, '604800000')
  r.count = r.count + 1 -- or more: it is not 0
  return err
end

local function hold(r, age, member)
  r.holds, r.oldest = true, nil
  return text(pcall('ZADD', r.held, age, member))
end

-- older tells whether a rule holds a job that is older than age.
local function older(r, age)
  if r.oldest == nil then
    local first = pcall('ZRANGE', r.held, '0', '0', 'WITHSCORES')
    r.oldest = not text(first) and tonumber(first[2] or nil) or false
  end
  return r.oldest and r.oldest < tonumber(age)
end

-- onTheirWay tells whether jobs of a rate that were let in are to start before others are let in. What is let in is popped first, so
-- where workers, and no tokens, are short, others wait until the last has started, but not for longer than 1.5 seconds.
local function onTheirWay(r)
  local n = numeric(pcall('ZCARD', r.slots))
  if r.every > 0 or n == 0 then return n >= r.way end
  local first = pcall('ZRANGE', r.slots, '0', '0', 'WITHSCORES')
  return n >= r.way or not text(first) and tonumber(first[2] or nil) > now() + 59.5
end

-- due has the leader look at a rule that holds jobs when room can come by itself, and tells it when that is sooner than it was.
-- Jobs of a rate that are on their way let others in when they start. Returns what Redis refuses.
local function due(r)
  if pcall('EXISTS', r.held) ~= 1 then
    if r.holds then pcall('ZREM', r.base .. 'held', r.id) end
    return
  end
  local at = now() + r.look
  local first = room(r) > 0 and {'', now() + 1} or pcall('ZRANGE', r.slots, '0', '0', 'WITHSCORES')
  if r.every then
    local token = r.back - (r.limit - 1) * r.every
    first = {'', token <= now() and onTheirWay(r) and now() + 0.5 or token}
  end
  if ends(r) > now() then first = {'', ends(r)} end
  if not text(first) and first[2] then at = math.min(at, math.max(tonumber(first[2]), now() + 0.002)) end
  local before = tonumber(pcall('ZSCORE', r.base .. 'held', r.id) or nil)
  local new = pcall('ZADD', r.base .. 'held', stamp(at), r.id)
  if not text(new) and (not before or at < before - 0.001) then pcall('PUBLISH', 'troupe:wakeup', 'limits') end
  return text(new)
end

-- back moves a held job to the end of its list that is popped next.
local function back(r, member, what, bytes)
  local err = text(pcall('RPUSH', what[1], bytes))
  if err then return err end
  if what[2] ~= '' then pcall('SADD', 'queues', what[2]) end
  pcall('ZREM', r.held, member)
  r.oldest = nil
end

-- letIn lets up to most jobs in that a rule holds, the oldest first, each with slots of all its rules for a minute. One that
-- another rule refuses is held by that one; older ones of that, which now has room, come first. What its queue refuses goes
-- behind the others. With force there is room for all.
local function letIn(r, most, force)
  local count = 0
  r.holds = r.holds or pcall('EXISTS', r.held) == 1
  if r.holds and r.every == 0 and not force then
    room(r)
    most = onTheirWay(r) and 0 or math.min(most, r.way - r.count)
  end
  while r.holds and most > 0 and (force or room(r) > 0) do
    local some, ready = pcall('ZRANGE', r.held, '0', string.format('%.0f', math.min(force and most or room(r), most) - 1), 'WITHSCORES'), {}
    if text(some) or #some == 0 then break end
    for i = 1, #some, 2 do
      most = most - 1
      local header, bytes = string.match(some[i], '^%S+ ([^\n]*)\n(.*)$')
      local ok, what = native(cjson.decode, header or '')
      local all, full = {}, nil
      for k = 4, ok and type(what) == 'table' and #what or 0 do
        local o = rule(r.base, what[k])
        all[#all + 1] = o
        if o ~= r and not force and (room(o) <= 0 or older(o, some[i + 1])) and not has(o, what[3]) then full = full or o end
      end
      if #all == 0 then
        pcall('ZADD', r.held, stamp(now()), some[i])
      elseif full and room(full) > 0 and #ready > 0 then
        break -- those first
      elseif full then
        local first = older(full, some[i + 1]) and full.oldest
        local n = room(full) > 0 and letIn(full, 1) or 0 -- the older one of that, which may be held by a third then
        count = count + n
        local goes = n == 0 and (older(full, some[i + 1]) and full.oldest) == first
        if goes and not hold(full, some[i + 1], some[i]) then
          pcall('ZREM', r.held, some[i])
          r.oldest = nil
        end
        due(full)
        if not goes then break end -- this one is looked at again
      else
        if pcall('SISMEMBER', 'paused', what[2]) == 1 then all = {} end -- it waits there, without slots
        for _, o in ipairs(all) do
          if not has(o, what[3]) then
            room(o)
            o.n = o.n - 1
            if o.every then spend(o, 1) end
            if ends(o) > 0 then rest(o, force and ends(o) or now() + o.pause, what[3]) end
          end
          give(o, {ending(60), what[3]})
        end
        ready[#ready + 1] = {some[i], what, bytes, all}
      end
    end
    for i = #ready, 1, -1 do -- what comes last is popped next
      local member, what, bytes, all = unpack(ready[i])
      if back(r, member, what, bytes) then
        pcall('ZADD', r.held, stamp(now()), member)
        for _, o in ipairs(all) do
          pcall('ZREM', o.slots, what[3])
          again(o)
        end
      else
        count = count + 1
      end
    end
  end
  return count
end

-- leave ends the slots of the jobs whose jids are these arguments, or has them live for so many seconds more; with another name
-- they are that one's.
local function leave(r, first, last, seconds, as)
  r.left = r.left or {}
  for i = first, last do
    if as ~= '' then
      if pcall('ZREM', r.slots, ARGV[i]) == 1 then pcall('ZADD', r.slots, ending(seconds), as) end
    elseif seconds > 0 then
      pcall('ZADD', r.slots, 'XX', ending(seconds), ARGV[i])
    else
      r.left[#r.left + 1] = ARGV[i]
    end
  end
end

-- left lets others in behind the jobs that have left.
local function left()
  for i = 1, #inOrder do -- letIn knows more of them
    local r = inOrder[i]
    for k = 1, r.left and #r.left or 0, 500 do pcall('ZREM', r.slots, unpack(r.left, k, math.min(k + 499, #r.left))) end
    again(r)
  end
  for i = 1, #inOrder do
    local r = inOrder[i]
    if r.left and pcall('EXISTS', r.held) == 1 then
      letIn(r, 16)
      due(r)
    end
  end
end
