-- letin lets held jobs in. Behind rules.
--
-- KEYS[1]  BASEheld
-- ARGV[1]  BASE; ARGV[2] how many jobs at most; ARGV[3] 'due' for the rules that are due, 'force' to let jobs in for which
--          there is no room, 'back' to send them back to their queues without slots; ARGV[4..] the rules, of force and back;
--          'one' for one job of the rule ARGV[4], whose member is ARGV[5], as with force; 'rest' has the rule ARGV[4] rest for
--          ARGV[5] seconds, or ends its rest with 0
--
-- Returns how many jobs were let in, of rest 1 if anything has changed, and of due in how many ms the next rule is due, -1 if none holds jobs.

local base, most, how, count = ARGV[1], tonumber(ARGV[2]), ARGV[3], 0
local refused = nil
local ids = {unpack(ARGV, 4, (how == 'one' or how == 'rest') and 4 or #ARGV)}
if how == 'due' then
  local some = pcall('ZRANGEBYSCORE', KEYS[1], '-inf', stamp(now()), 'LIMIT', '0', '1000')
  ids = text(some) and {} or some
end
for _, id in ipairs(ids) do
  local r = rule(base, id)
  r.holds = true
  if how == 'one' then -- it is the oldest then
    if pcall('ZADD', r.held, 'XX', 'CH', '-inf', ARGV[5]) == 1 then count = letIn(r, 1, true) end
  elseif how == 'rest' then
    if r.failures and ARGV[5] ~= '0' then
      rest(r, now() + tonumber(ARGV[5]))
      count = 1
    elseif ARGV[5] == '0' and pcall('EXISTS', r.rest) == 1 then
      close(r)
      letIn(r, 16)
      count = 1
    end
  elseif most > 0 and how ~= 'back' then
    local n = letIn(r, how == 'force' and most or math.min(most, 16), how == 'force')
    count, most = count + n, most - n
  elseif most > 0 then
    local some = pcall('ZRANGE', r.held, '-' .. most, '-1')
    for i = text(some) and 0 or #some, 1, -1 do
      local header, bytes = string.match(some[i], '^%S+ ([^\n]*)\n(.*)$')
      local ok, what = native(cjson.decode, header or '')
      if ok and type(what) == 'table' and #what > 2 and not back(r, some[i], what, bytes) then count, most = count + 1, most - 1 end
    end
  end
  refused = due(r) or refused
end
local first, wait = pcall('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES'), -1
if not text(first) and first[2] then wait = math.max(0, math.ceil((tonumber(first[2]) - now()) * 1000)) end
if refused and wait >= 0 then wait = math.max(wait, 1000) end -- out of memory: it is due still
return {count, wait}
