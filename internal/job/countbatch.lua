-- countbatch counts jobs in their batch, for those who end jobs without a settle. Behind batch.
--
-- ARGV[1]   ID of the batch
-- ARGV[2]   what has happened: 'ran', 'done', 'died', 'close' for a batch that may end, 'cancel' for one whose callbacks are not
--           to be fired any more
-- ARGV[3..] the jobs by their indexes
--
-- Returns 1, or 0 if the batch is not there or finished; an error if Redis takes no writes.

local id, event = ARGV[1], ARGV[2]
if not fields(batchKey(id)) then return 0 end
local err = text(pcall('HSET', batchKey(id), 'last', exact(seconds())))
if err then return redis.error_reply(err) end
if event == 'close' then
  shut(id, '', true)
elseif event == 'cancel' then
  cancel(id)
else
  count(id, {unpack(ARGV, 3)}, event, 0)
end
return 1
