-- admit asks the limits of jobs in hand: one that all its rules let in stays in progress, with slots; another one is held by
-- the first rule that does not. Behind enter and rules.
--
-- KEYS[2..] lists
-- ARGV[3]  BASE, ARGV[4] seconds that a slot lives
-- ARGV[5..] jobs, each of them: number of the key of its list; its field; the name of a large job that is not sent, else ''; the
--          job; its jid; its age, as enqueued_at; its HEADER; '1' if there is room for it in any case;
--          number of its rules; these
--
-- Returns for each job '' if it stays, else the rule that holds it. Errors, before anything is written: REFUSED if a key of a
-- rule cannot be written, ABSENT if a large job is to be sent.

local jobs, at = {}, 5
while at <= #ARGV do
  local j = {list = KEYS[tonumber(ARGV[at])], field = ARGV[at + 1], job = ARGV[at + 3], jid = ARGV[at + 4], age = ARGV[at + 5], header = ARGV[at + 6], force = ARGV[at + 7] == '1'}
  local n = tonumber(ARGV[at + 8])
  if ARGV[at + 2] ~= '' then
    j.job = known(j.list, ARGV[at + 2])
    if not j.job then return redis.error_reply('ABSENT') end
  end
  for i = at + 9, at + 8 + n do
    local r = rules[ARGV[i]]
    if not r then
      r = rule(ARGV[3], ARGV[i])
      for _, key in ipairs({r.slots, r.held, r.base .. 'held'}) do
        local err = text(pcall('ZADD', key, 'XX', '0', ''))
        if err then return redis.error_reply('REFUSED ' .. key .. ': ' .. err) end
      end
    end
    j[#j + 1] = r
  end
  at = at + 9 + n
  jobs[#jobs + 1] = j
end

local asked = #inOrder -- letIn knows more of them
for i = 1, asked do
  local r = inOrder[i]
  letIn(r, 16)
  r.busy = pcall('EXISTS', r.held) == 1 -- then who comes now waits behind
end
local out = {}
for i, j in ipairs(jobs) do
  local by
  for _, r in ipairs(j) do
    if not by and not j.force and (r.busy or room(r) <= 0) and not has(r, j.jid) then by = r end
  end
  out[i] = by and by.id or ''
  if by then
    hold(by, j.age, string.format('%.0f.%05d.%s %s\n', now() * 1000000, i, number, j.header) .. j.job)
    by.busy = true
    pcall('LREM', j.list, '-1', j.job)
    dropped(j.list, j.field)
  else
    for _, r in ipairs(j) do enterRule(r, j.jid, r.every and 0 or tonumber(ARGV[4])) end
  end
end
for i = 1, asked do due(inOrder[i]) end
confirm()
return out
