-- settle moves jobs out of their lists, the destination first. Behind enter.
--
-- KEYS[2]  retry set      (to 1)
-- KEYS[3]  schedule set   (to 2)
-- KEYS[4]  dead set       (to 3)
-- KEYS[5]  set of all queues; KEYS[2..5] are the place itself on a cluster, where
--          these lie in other slots and are not used
-- KEYS[6..] lists and queues
-- ARGV[3..] moves of nine: number of the key of the list; its field; the job; to, '' if it
--          was written elsewhere; number of the key of the queue (to 0 and 4), or the score; name of the queue if it
--          may be new to the set of all queues, else ''; what is written, '' for the job
--          itself; '1' if that is to be an empty text; trim as 'BEFORE MAX', '' for none
--
-- Returns per move 1, or an error text: then the job is where it was. A job that is
-- not in its list is written all the same: its owner is not fenced and the call is new,
-- so Redis has fallen back.

local out, lists, fields = {}, {}, {}
for at = 3, #ARGV, 9 do
  local list, field, job, to = KEYS[tonumber(ARGV[at])], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local written = ARGV[at + 6]
  if written == '' and ARGV[at + 7] ~= '1' then written = job end
  local err
  if to == '0' then
    err = text(pcall('RPUSH', KEYS[tonumber(ARGV[at + 4])], written))
  elseif to == '4' then
    if ARGV[at + 5] ~= '' then err = text(pcall('SADD', KEYS[5], ARGV[at + 5])) end
    err = err or text(pcall('LPUSH', KEYS[tonumber(ARGV[at + 4])], written))
  elseif to ~= '' then
    err = text(pcall('ZADD', KEYS[1 + tonumber(to)], ARGV[at + 4], written))
  end
  if not err then
    pcall('LREM', list, -1, job)
    if list ~= lists[#lists] then lists[#lists + 1], fields[#fields + 1] = list, field end
    if ARGV[at + 8] ~= '' then
      local before, max = string.match(ARGV[at + 8], '^(%S*) (%S*)$')
      if before ~= '' then pcall('ZREMRANGEBYSCORE', KEYS[4], '-inf', before) end
      if max ~= '' then pcall('ZREMRANGEBYRANK', KEYS[4], 0, -tonumber(max)) end
    end
  end
  out[#out + 1] = err or '1'
end
for i, list in ipairs(lists) do dropped(list, fields[i]) end
confirm()
return out
