-- Moves members of a sorted set, which may be dead itself, into dead: each one
-- that is still there. Their locks are freed.
--
-- KEYS    1 the set, 2 dead, 3.. locks
-- ARGV    1 score, 2 the trim of dead, see bound, 3 how many members,
--         4.. pairs of a member and the text that dead gets, "" for the member;
--         then for each lock the number of its member and the jid
-- returns a string with "1" for each member that was there, "0" for the others
local there, any, n = {}, false, tonumber(ARGV[3])
for i = 4, 2 + 2 * n, 2 do
  local member, text = ARGV[i], ARGV[i + 1]
  if text == '' then text = member end
  there[#there + 1] = '0'
  if redis.call('ZSCORE', KEYS[1], member) then
    there[#there], any = '1', true
    redis.call('ZADD', KEYS[2], ARGV[1], text)
    if KEYS[1] ~= KEYS[2] or text ~= member then redis.call('ZREM', KEYS[1], member) end
  end
end
for k = 3, #KEYS do
  local at = 2 * (n + k) - 2
  if there[tonumber(ARGV[at])] == '1' then unlock(KEYS[k], ARGV[at + 1]) end
end
if any then
  bound(KEYS[2], ARGV[2])
end
return table.concat(there)
