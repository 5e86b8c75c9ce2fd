-- begin opens an index, or raises the generation of one, so that what is still on
-- its way of an older generation is refused from here on.
--
-- KEYS[1]  in-progress index
-- KEYS[2]  registry of owners
-- ARGV[1]  the new generation
-- ARGV[2]  id of the owner
-- ARGV[3]  what the registry says of it
-- ARGV[4..] fields of waiting lists, each with the name of its queue
--
-- Returns {generation, number of the last call, (field, value)*} as they were before, with
-- an empty generation for an index that did not exist. Errors: FENCED as in enter;
-- FOREIGN when the index has this generation or a higher one.

local call = redis.call
call('HDEL', KEYS[1], '')
local fields = call('HGETALL', KEYS[1])
local gen, number = '', '0'
for i = 1, #fields, 2 do
  if fields[i] == '!' then
    gen, number = string.match(fields[i + 1], '^(%d+) (%d+)$')
    if not gen then return redis.error_reply('FENCED ' .. fields[i + 1]) end
    if tonumber(gen) >= tonumber(ARGV[1]) then return redis.error_reply('FOREIGN ' .. fields[i + 1]) end
  end
end
call('HSET', KEYS[2], ARGV[2], ARGV[3])
call('HSET', KEYS[1], '!', ARGV[1] .. ' ' .. number)
local t = call('TIME')
local now = string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000))
for i = 4, #ARGV, 2 do
  call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1] .. ' ' .. now)
end
local out = {gen, number}
for i = 1, #fields, 2 do
  if fields[i] ~= '!' then
    out[#out + 1], out[#out + 2] = fields[i], fields[i + 1]
  end
end
return out
