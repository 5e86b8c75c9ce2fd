-- admit asks the limits of jobs in hand: one that all its rules let in stays in progress, with slots; another one is held by
-- the first rule that does not. One that asks ahead of its run stays without slots in place of that, unless more than half of what
-- a rule allows is free, or its only slot. Behind enter and rules.
--
-- KEYS[2..] lists
-- ARGV[3]  BASE, ARGV[4] seconds that a slot lives
-- ARGV[5..] groups of jobs with the same rules, each of them: how they ask; number of the rules; these; and, of how
--          'ahead'      ahead of their runs: number of jobs; their jids
--          '', 'force'  one job, with force if there is room for it in any case: number of the key of its list; its field; the name of a
--                       large job that is not sent, else ''; the job; its jid; its age, as enqueued_at; its HEADER
--
-- Returns for each job '' if it is let in, ' ' if it is to ask again, else the rule that holds it. Errors: ABSENT if a large job is to be sent, REFUSED if a key of
-- a rule cannot be written. Then no job is held; slots that were given are given again by the next call.

local jobs, at, life = {}, 5, tonumber(ARGV[4])
while at <= #ARGV do
  local how, of, n = ARGV[at], {}, tonumber(ARGV[at + 1])
  for i = at + 2, at + 1 + n do of[#of + 1] = rule(ARGV[3], ARGV[i]) end
  at = at + 2 + n
  if how == 'ahead' then
    n = tonumber(ARGV[at])
    for i = at + 1, at + n do jobs[#jobs + 1] = {rules = of, ahead = true, jid = ARGV[i]} end
    at = at + 1 + n
  else
    local j = {rules = of, force = how == 'force', list = KEYS[tonumber(ARGV[at])], field = ARGV[at + 1], job = ARGV[at + 3], jid = ARGV[at + 4], age = ARGV[at + 5], header = ARGV[at + 6]}
    if ARGV[at + 2] ~= '' then
      j.job = known(j.list, ARGV[at + 2])
      if not j.job then return redis.error_reply('ABSENT') end
    end
    jobs[#jobs + 1] = j
    at = at + 7
  end
end

local asked = #inOrder -- letIn knows more of them
for i = 1, asked do
  local r = inOrder[i]
  r.slotsOf, r.holding = {}, numeric(pcall('ZCARD', r.held)) > 0
  if r.holding then
    letIn(r, 16)
    r.busy = pcall('EXISTS', r.held) == 1 -- then who comes now waits behind
  end
end

local out, held, last = {}, {}, ending(life)
for i, j in ipairs(jobs) do
  local by, mine = nil, {}
  for k, r in ipairs(j.rules) do
    local plenty = not r.every and not r.busy and room(r) > #jobs -- then it does not matter
    mine[k] = not plenty and (r.slotsOf[j.jid] or has(r, j.jid)) or nil
    local free = j.ahead and r.limit > 1 and r.limit / 2 or 0
    local later = j.ahead and r.failures -- it may rest by then: who starts asks, whatever it has
    if not by and not j.force and (later or not mine[k] and (r.busy or room(r) <= free)) then by = r end
  end
  out[i] = by and (j.ahead and ' ' or by.id) or ''
  if by and not j.ahead then
    by.busy = true
    held[#held + 1] = {by, i}
    if ends(by) > 0 then -- others may have the slots that it was given before
      for _, r in ipairs(j.rules) do pcall('ZREM', r.slots, j.jid) end
    end
  end
  for k, r in ipairs(by and {} or j.rules) do
    if not mine[k] then
      r.n, r.coming = room(r) - 1, r.coming + 1
      if ends(r) > 0 and not j.force then rest(r, now() + r.pause, j.jid) end
    end
    if not r.every then
      r.slotsOf[j.jid] = true
      r.slotsOf[#r.slotsOf + 1] = last
      r.slotsOf[#r.slotsOf + 1] = j.jid
    elseif mine[k] then
      pcall('ZREM', r.slots, j.jid)
    end
  end
end

for i = 1, asked do
  local r = inOrder[i]
  local key, err = r.slots, #r.slotsOf > 0 and give(r, r.slotsOf)
  if r.every and r.coming > 0 then key, err = r.rate, spend(r, r.coming) end
  r.coming = 0
  for _, name in ipairs(r.busy and not err and {r.held, r.base .. 'held'} or {}) do
    if not err then key, err = name, text(pcall('ZADD', name, 'XX', '0', '')) end
  end
  if err then return redis.error_reply('REFUSED ' .. key .. ': ' .. err) end
end
for _, h in ipairs(held) do
  local by, j = h[1], jobs[h[2]]
  hold(by, j.age, string.format('%.0f.%05d.%s %s\n', now() * 1000000, h[2], number, j.header) .. j.job)
  pcall('LREM', j.list, '-1', j.job)
  dropped(j.list, j.field)
end
for i = 1, asked do
  local r = inOrder[i]
  if r.holding or r.busy then due(r) end
end
confirm()
return out
