-- enter is the head of every script of a fetcher. KEYS[1] is its index, ARGV[1] what `!` of
-- the index must be, "generation number" of the last call, and ARGV[2] the number of this one.
--
-- Redis that is out of memory refuses the first command of a script that needs some, but lets a script that has
-- begun to write go on. So the first write is one that needs memory and changes nothing: whether it is refused tells
-- whether there is room for what is worth less than a job. Where it is, HDEL of a field that is never there begins to
-- write. PERSIST would do as well, and would take its end from a tombstone.
--
-- Errors, none of which changes anything: MISSING without an index, FENCED when a
-- rescuer has closed it, STALE when `!` is not as expected: a repetition, a late duplicate, or
-- Redis has fallen back.

local call, pcall = redis.call, redis.pcall
local index, number = KEYS[1], ARGV[2]
local mark = call('HGET', index, '!')
if not mark then return redis.error_reply('MISSING ' .. index) end
if string.sub(mark, 1, 6) == 'fenced' then return redis.error_reply('FENCED ' .. mark) end
if mark ~= ARGV[1] then return redis.error_reply('STALE ' .. mark .. ', expected ' .. ARGV[1]) end

local full = pcall('HSETNX', index, '!', '') -- the error of a Redis without memory, else false
full = type(full) == 'table' and full.err
if full then call('HDEL', index, '') end
full = full and string.find(full, 'OOM', 1, true) and full

-- confirm ends a call that was carried out; it comes last.
local function confirm()
  call('HSET', index, '!', string.match(mark, '^%d+') .. ' ' .. number)
end

local function text(reply) -- of an error
  return type(reply) == 'table' and reply.err or nil
end

-- known is the job of a list with this name: its length and SHA-1. nil if it is not there.
local function known(list, name)
  local jobs, size = pcall('LRANGE', list, 0, -1), tonumber(string.match(name, '^%d+'))
  for i = text(jobs) and 0 or #jobs, 1, -1 do
    if #jobs[i] == size and size .. ' ' .. redis.sha1hex(jobs[i]) == name then return jobs[i] end
  end
end

-- dropped forgets a claim that has become empty. Waiting lists stay named.
local function dropped(list, field)
  if string.sub(field, 1, 1) ~= 'w' and pcall('EXISTS', list) == 0 then
    call('HDEL', index, field)
  end
end

