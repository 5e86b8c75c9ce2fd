-- Reads jobs, of long ones only both ends. It writes nothing.
--
-- KEYS    1 a list, a sorted set or a hash
-- ARGV    1 where: head or tail (positions in a list from there), low or high (ranks in a set from
--         there), up or down (entries of a set from a score on), scan (of a set), hash
--         2 bytes of the head of a long job, 3 of its tail
--         4 bytes after which it ends early, 5 but not before so many jobs
--         6 the first position, rank or score, or the cursor, 7 how many at most, 8 the glob
-- returns "1" if it has ended early, the rank of the first entry or the next cursor, and for each
--         job its size, head, tail, and its score or field
local key, where, first, count = KEYS[1], ARGV[1], ARGV[6], tonumber(ARGV[7])
local head, tail, budget, least = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local out, bytes = {'', '-1'}, 0

local function add(job, beside)
  local long = #job > head + tail
  bytes = bytes + #job
  out[#out + 1] = tostring(#job)
  out[#out + 1] = long and string.sub(job, 1, head) or job
  out[#out + 1] = long and string.sub(job, -tail) or ''
  out[#out + 1] = beside
end

if where == 'hash' or where == 'scan' then
  local got = where == 'hash' and redis.pcall('HGETALL', key) or redis.pcall('ZSCAN', key, first, 'MATCH', ARGV[8], 'COUNT', count)
  if got.err then return got end
  if where == 'scan' then
    out[2] = got[1]
    for i = 1, #got[2], 2 do add(got[2][i], got[2][i + 1]) end
  else
    for i = 1, #got, 2 do add(got[i + 1], got[i]) end
  end
  return out
end

if where == 'up' or where == 'down' then
  local up = where == 'up'
  local got = redis.pcall('ZCOUNT', key, up and '-inf' or '(' .. first, up and '(' .. first or '+inf')
  if type(got) == 'table' then return got end
  where, first = up and 'low' or 'high', got
end

-- Few at first, and more as long as they are short: Redis makes a copy of what is asked for.
local list = where == 'head' or where == 'tail'
local at, last, step = tonumber(first), tonumber(first) + count, 1
if not list then out[2] = string.format('%.0f', at) end
while at < last do
  local n, got = math.min(step, last - at), nil
  if where == 'head' then
    got = redis.pcall('LRANGE', key, at, at + n - 1)
  elseif where == 'tail' then
    got = redis.pcall('LRANGE', key, -at - n, -at - 1)
  elseif where == 'low' then
    got = redis.pcall('ZRANGE', key, at, at + n - 1, 'WITHSCORES')
  else
    got = redis.pcall('ZRANGE', key, at, at + n - 1, 'REV', 'WITHSCORES')
  end
  if got.err then return got end
  local before = bytes
  if where == 'head' then
    for i = 1, #got do add(got[i], '') end
  elseif where == 'tail' then
    for i = #got, 1, -1 do add(got[i], '') end
  else
    for i = 1, #got, 2 do add(got[i], got[i + 1]) end
  end
  if #got < (list and n or 2 * n) then break end
  at = at + n
  if at < last and bytes > budget and at - tonumber(first) >= least then
    if at < redis.call(list and 'LLEN' or 'ZCARD', key) then out[1] = '1' end
    break
  end
  step = bytes - before > budget / 16 and 1 or 2 * step
end
return out
