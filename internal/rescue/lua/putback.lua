-- putback empties a list of a fenced owner into its queue, the newest job first: the
-- oldest is the next to be popped.
--
-- KEYS[1]  in-progress index, KEYS[2] list, KEYS[3] queue
-- ARGV[1]  field of the list
-- ARGV[2]  how many jobs at most
-- ARGV[3]  ms for which the list is closed, '' for a claim: nothing more can come
--
-- Returns {how many went back, how many are left}. When none is left the list is closed
-- and forgotten in the same step. Errors: NOTFENCED, and what the queue says.

local call, pcall = redis.call, redis.pcall
call('HDEL', KEYS[1], '') -- see enter
local mark = call('HGET', KEYS[1], '!')
if not mark or string.sub(mark, 1, 6) ~= 'fenced' then return redis.error_reply('NOTFENCED ' .. KEYS[1]) end
local moved = 0
if call('TYPE', KEYS[2]).ok == 'list' then
  for _ = 1, tonumber(ARGV[2]) do
    local r = pcall('LMOVE', KEYS[2], KEYS[3], 'LEFT', 'RIGHT')
    if type(r) == 'table' and r.err then return r end
    if not r then break end
    moved = moved + 1
  end
  local left = call('LLEN', KEYS[2])
  if left > 0 then return {moved, left} end
end
if ARGV[3] ~= '' then call('SET', KEYS[2], 'closed', 'PX', ARGV[3]) end
call('HDEL', KEYS[1], ARGV[1])
return {moved, 0}
