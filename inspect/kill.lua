-- Moves members of a sorted set, which may be dead itself, into dead: each one
-- that is still there.
--
-- KEYS    1 the set, 2 dead
-- ARGV    1 score, 2 the trim of dead, see bound,
--         3.. pairs of a member and the text that dead gets, "" for the member
-- returns a string with "1" for each member that was there, "0" for the others
local there, any = {}, false
for i = 3, #ARGV, 2 do
  local member, text = ARGV[i], ARGV[i + 1]
  if text == '' then text = member end
  there[#there + 1] = '0'
  if redis.call('ZSCORE', KEYS[1], member) then
    there[#there], any = '1', true
    redis.call('ZADD', KEYS[2], ARGV[1], text)
    if KEYS[1] ~= KEYS[2] or text ~= member then redis.call('ZREM', KEYS[1], member) end
  end
end
if any then
  bound(KEYS[2], ARGV[2])
end
return table.concat(there)
