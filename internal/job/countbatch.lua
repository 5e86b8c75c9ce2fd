-- countbatch counts jobs in their batches, for those who end jobs without a settle. Behind batch.
--
-- ARGV  per batch four: its ID; what has happened: 'ran', 'done', 'died', 'close' for a batch that may end, 'cancel' for one whose
--       callbacks are not to be fired any more; how many jobs, these by their indexes
--
-- Returns for each 1, or 0 if the batch is not there or finished; an error if Redis takes no writes.

local out, at = {}, 1
while at < #ARGV do
  local id, event, n = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local indexes = {unpack(ARGV, at + 3, at + 2 + n)}
  at = at + 3 + n
  local f = fields(batchKey(id), 'success')
  local there = f and not f[2]
  out[#out + 1] = there and 1 or 0
  local err = there and text(pcall('HSET', batchKey(id), 'last', exact(seconds())))
  if err then return redis.error_reply(err) end
  if not there then -- nothing is to be done
  elseif event == 'close' then
    shut(id, '', true)
  elseif event == 'cancel' then
    cancel(id)
  else
    count(id, indexes, true, event == 'done', event == 'died', 0)
  end
end
return out
