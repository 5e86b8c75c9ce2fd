-- countbatch counts jobs in their batches, for those who end jobs without a settle. Behind batch.
--
-- ARGV  per batch four: its ID; what has happened: 'ran', 'done', 'died', 'close' for a batch that may end, 'cancel' for one whose
--       callbacks are not to be fired any more; how many jobs, these by their indexes
--
-- Returns for each 1, or 0 if the batch is not there or finished.

local out, at = {}, 1
while at < #ARGV do
  local id, event, n = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local indexes = {unpack(ARGV, at + 3, at + 2 + n)}
  at = at + 3 + n
  local f = fields(batchKey(id), 'success', 'cancelled', 'parent')
  out[#out + 1] = f and not f[2] and 1 or 0
  if not f or f[2] then
    f = nil
  elseif event == 'close' then
    shut(id, '', true)
  elseif event == 'cancel' then
    pcall('HSET', batchKey(id), 'cancelled', exact(seconds()), 'closed', '1')
    pcall('ZREMRANGEBYSCORE', 'troupe:batches:cancelled', '-inf', whole(seconds()))
    pcall('ZADD', 'troupe:batches:cancelled', whole(seconds(30 * batchDay)), id)
    count(id, {}, false, false, false, 0)
    local up, index = string.match(f[4] or '', '^(.*):(%d+)$')
    if up then count(up, {index}, true, true, false, 0) end
  else
    count(id, indexes, true, event == 'done', event == 'died', 0)
  end
end
return out
