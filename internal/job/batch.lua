-- batch is the head of scripts that know batches. Behind call, pcall and text. Its keys are no KEYS: batches are for one server.
--
-- troupe:batch:ID        hash: total, how many jobs it has; pending, how many are not done; unrun, how many have not ended a run;
--                        closed '1' once it may end; parent 'ID:INDEX', the batch that it is a job of; due, the latest time of a
--                        job, last, when something was counted, and cancelled, complete, success and death, when that happened,
--                        all in seconds; died '1' once the callback of a death was refused; on:EVENT and to:EVENT, a callback without enqueued_at and its last brace, and its
--                        queue; form 'm' if timestamps are in milliseconds; name and made are for people
-- troupe:batch:ID:ran, :done   bitmaps of its jobs by their index
-- troupe:batch:ID:children     set of the batches that are jobs of it
-- troupe:batches         zset: ID -> when its keys expire, in seconds

local batchDay, instant = 86400, nil

local function seconds(more)
  if not instant then
    local t = call('TIME')
    instant = t[1] + t[2] / 1000000
  end
  return instant + (more or 0)
end

local function exact(number) return string.format('%.6f', number) end
local function whole(number) return string.format('%.0f', number) end
local function batchKey(id) return 'troupe:batch:' .. id end

-- fields reads pending, unrun, total and more of the hash of a batch; nil if it is not there, or has succeeded.
local function fields(key, ...)
  local f = pcall('HMGET', key, 'pending', 'unrun', 'total', 'success', ...)
  if not text(f) and f[1] and not f[4] then return f end
end

-- grow has a batch with these fields have n more jobs.
local function grow(key, f, n)
  pcall('HSET', key, 'pending', whole((f[1] or 0) + n), 'unrun', whole((f[2] or 0) + n), 'total', whole((f[3] or 0) + n))
end

-- place reads the field parent: the batch that one is a job of, and its index there.
local function place(parent) return string.match(parent or '', '^(.*):(%d+)$') end

local function expireAt(id, at)
  for _, part in ipairs({'', ':ran', ':done', ':children'}) do pcall('PEXPIRE', batchKey(id) .. part, whole((at - seconds()) * 1000)) end
  pcall('ZADD', 'troupe:batches', whole(at), id)
end

-- outlive has a batch and those above it live for 30 days beyond the time due. It writes once a day.
local function outlive(id, due)
  local at = math.max(seconds(), due) + 30 * batchDay
  while id do
    local left = pcall('PTTL', batchKey(id))
    if text(left) or left == -2 or seconds(left / 1000 + batchDay) > at then return end
    expireAt(id, at)
    local f = fields(batchKey(id), 'parent')
    id = f and place(f[5])
  end
end

-- fire pushes the callback of an event, and notes the event; false if the queue refuses the callback. In a batch with a parent the
-- callback is a job of the parent, that of success in the place of the batch: then it returns true twice, since the parent waits for
-- that job.
local function fire(key, event, up, index)
  local f, placed = pcall('HMGET', key, 'on:' .. event, 'to:' .. event, 'form'), false
  if f[1] then
    local job = f[1] .. ',"enqueued_at":' .. (f[3] == 'm' and whole(seconds() * 1000) or exact(seconds()))
    local above = up and fields(batchKey(up))
    placed = above and event == 'success'
    if above then job = job .. ',"t_batch":"' .. up .. ':' .. (placed and index or above[3]) .. '"' end
    if text(pcall('LPUSH', 'queue:' .. f[2], job .. '}')) then return false end
    pcall('SADD', 'queues', f[2])
    if above and not placed then grow(batchKey(up), above, 1) end
  end
  pcall('HSET', key, event, exact(seconds()))
  return true, placed
end

-- count notes what has become of the jobs of a batch with these indexes: 'ran', 'done', 'died', each with the end of a run, or 'wait', which
-- counts nothing. Then it fires what is to be fired, and counts the batch in its parent. due is when one of them is to run again, 0 if that is
-- soon.
local function count(id, indexes, event, due)
  local key = batchKey(id)
  local f = fields(key, 'closed', 'complete', 'death', 'cancelled', 'parent', 'due', 'died')
  if not f then return end
  local pending, unrun, closed, completed, up, own = tonumber(f[1]), tonumber(f[2]), f[5], f[6], place(f[9])
  for _, index in ipairs(indexes) do
    if tonumber(index) < tonumber(f[3]) then -- else Redis has fallen back to a time before the job entered
      if event ~= 'wait' and pcall('SETBIT', key .. ':ran', index, '1') == 0 then unrun = unrun - 1 end
      if event == 'done' and pcall('SETBIT', key .. ':done', index, '1') == 0 then pending = pending - 1 end
    end
  end
  due = math.max(due, tonumber(f[10] or 0))
  pcall('HSET', key, 'pending', whole(pending), 'unrun', whole(unrun), 'due', exact(due), 'last', exact(seconds()))
  outlive(id, due)
  if f[8] then
    if pending <= 0 then
      expireAt(id, seconds(batchDay))
      pcall('ZREM', 'troupe:batches:cancelled', id)
    end
    return
  end
  local death, complete, success, placed = false, false, false, false
  if (event == 'died' or f[11]) and not f[7] then
    death = fire(key, 'death', up)
    if not death then pcall('HSET', key, 'died', '1') end
  end
  if closed and unrun <= 0 and not completed then complete = fire(key, 'complete', up) end
  if closed and pending <= 0 and (completed or complete) then success, placed = fire(key, 'success', up, own) end
  if success then expireAt(id, seconds(batchDay)) end
  if up and death then count(up, {}, 'died', 0) end
  if up and (complete or success) then count(up, {own}, success and not placed and 'done' or 'ran', 0) end
end

-- join puts jobs into a batch. Its arguments begin at `at`: ID, how many names and values of fields of a new batch, these; per job
-- its queue, score of the schedule set or '', text without its last brace. Beside an error text, or nil, it returns what undoes it.
-- With open a batch that is finished or gone is no error: then the jobs enter without it.
local function join(at, last, open)
  local id, first, due, undo, listed = ARGV[at], at + 2 + tonumber(ARGV[at + 1]), 0, {}, {}
  local key = batchKey(id)
  local f = pcall('HMGET', key, 'pending', 'unrun', 'total', 'due', 'success', 'cancelled')
  if text(f) then return key .. ': ' .. text(f) end
  local new, gone = not f[1], f[5] or not f[1] and first == at + 2
  if not open and (gone or f[6]) then return new and 'UNKNOWN' or f[5] and 'SUCCEEDED' or 'CANCELLED' end
  local total = tonumber(f[3] or 0)
  local function back()
    for i = #undo, 1, -1 do pcall(unpack(undo[i])) end
  end
  for i = first, last, 3 do
    local queue, score, job, err = ARGV[i], ARGV[i + 1], ARGV[i + 2], nil
    if not gone then
      job = job .. ',"t_batch":"' .. id .. ':' .. whole(total) .. '"'
      total = total + 1
    end
    job = job .. '}'
    if score ~= '' then
      err = text(pcall('ZADD', 'schedule', score, job))
      undo[#undo + 1] = {'ZREM', 'schedule', job}
      due = math.max(due, tonumber(score))
      listed[''] = true
    else
      if not listed[queue] then err = text(pcall('SADD', 'queues', queue)) end
      listed[queue] = true
      err = err or text(pcall('LPUSH', 'queue:' .. queue, job))
      undo[#undo + 1] = {'LPOP', 'queue:' .. queue}
    end
    if err then
      undo[#undo] = nil
      back()
      return (score ~= '' and 'schedule' or 'queue:' .. queue) .. ': ' .. err
    end
  end
  if listed[''] then pcall('PUBLISH', 'troupe:wakeup', '1') end
  if gone then return nil, back end
  local n = total - tonumber(f[3] or 0)
  if new then
    undo[#undo + 1] = {'ZREM', 'troupe:batches', id}
    undo[#undo + 1] = {'UNLINK', key, key .. ':ran', key .. ':done'}
    if first > at + 2 then pcall('HSET', key, unpack(ARGV, at + 2, first - 1)) end
  else
    undo[#undo + 1] = {'HSET', key, 'pending', f[1], 'unrun', f[2], 'total', f[3]}
  end
  due = math.max(due, tonumber(f[4] or 0))
  grow(key, f, n)
  pcall('HSET', key, 'due', exact(due), 'last', exact(seconds()))
  if new then
    pcall('SETBIT', key .. ':ran', '0', '0')
    pcall('SETBIT', key .. ':done', '0', '0')
    pcall('ZREMRANGEBYSCORE', 'troupe:batches', '-inf', whole(seconds()))
  end
  outlive(id, due)
  return nil, back
end

-- cancel has a batch push no callbacks any more, and its waiting jobs not be run. For its parent it is done.
local function cancel(id)
  pcall('HSET', batchKey(id), 'cancelled', exact(seconds()), 'closed', '1')
  pcall('ZREMRANGEBYSCORE', 'troupe:batches:cancelled', '-inf', whole(seconds()))
  pcall('ZADD', 'troupe:batches:cancelled', whole(seconds(30 * batchDay)), id)
  count(id, {}, 'wait', 0)
  local f = fields(batchKey(id), 'parent')
  local up, index = place(f and f[5])
  if up then count(up, {index}, 'done', 0) end
end

-- shut makes a batch a job of its parent, unless that is '' or finished, and with close lets it end. In a parent that was cancelled it is, too.
local function shut(id, parent, close)
  local key = batchKey(id)
  local f = fields(key, 'parent', 'death')
  if not f then return end
  local above = parent ~= '' and not f[5] and fields(batchKey(parent), 'cancelled')
  if above then
    local up = batchKey(parent)
    pcall('HSET', key, 'parent', parent .. ':' .. above[3])
    grow(up, above, 1)
    pcall('SADD', up .. ':children', id)
    pcall('PEXPIRE', up .. ':children', whole(math.max(1, pcall('PTTL', up))))
    if f[6] then count(parent, {}, 'died', 0) end
    if above[5] then cancel(id) end
  end
  if close then pcall('HSET', key, 'closed', '1') end
  count(id, {}, 'wait', 0)
end
