-- fence closes the index of an owner whose lease is over, for good.
--
-- KEYS[1]  in-progress index
-- ARGV[1]  its generation as it was before the lease was found to be over
-- ARGV[2]  ms of the clock of the rescuer
--
-- Returns every field and value of the index, none when it does not exist. Error ALIVE
-- when the owner has raised its generation meanwhile. An index that is fenced already
-- is returned as it is: the rescue goes on.

local call = redis.call
call('HDEL', KEYS[1], '') -- see enter
local mark = call('HGET', KEYS[1], '!')
if mark and string.sub(mark, 1, 6) ~= 'fenced' then
  if string.match(mark, '^%d+') ~= ARGV[1] then return redis.error_reply('ALIVE ' .. mark) end
  call('HSET', KEYS[1], '!', 'fenced ' .. ARGV[2] .. ' ' .. mark)
end
return call('HGETALL', KEYS[1])
