-- leave ends an index in which nothing is in progress. Behind enter.
--
-- KEYS[2]  registry of owners
-- KEYS[3..] every list that the index names
-- ARGV[3]  id of the owner
-- ARGV[4]  ms for which a list that may still get a job is closed
-- ARGV[5..] per list '1' if a blocked move into it may still be on its way, else ''
--
-- Returns {how many jobs are in progress}; above 0 nothing changes.

local left = 0
for k = 3, #KEYS do
  local n = pcall('LLEN', KEYS[k])
  if type(n) == 'number' then left = left + n end
end
if left > 0 then
  confirm()
  return {string.format('%d', left)}
end
for k = 3, #KEYS do
  if ARGV[k + 2] == '1' then call('SET', KEYS[k], 'closed', 'PX', ARGV[4]) end
end
call('DEL', index)
call('HDEL', KEYS[2], ARGV[3])
return {'0'}
