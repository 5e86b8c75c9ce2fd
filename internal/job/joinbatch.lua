-- joinbatch pushes jobs into a batch, once. Behind batch.
--
-- KEYS[1]  hash of the batch; KEYS[2] marker of the pusher
-- ARGV[1]  number of this call, they count up; ARGV[2] how long the marker stands, ms
-- ARGV[3]  ID of the parent, '' for none; ARGV[4] 'close' or 'open' with the last call, else ''
-- ARGV[5..] as of join
--
-- Returns '', or why nothing was done: UNKNOWN, SUCCEEDED or CANCELLED of the batch, or an error.

local done = pcall('GET', KEYS[2])
if type(done) == 'string' and tonumber(done) >= tonumber(ARGV[1]) then return '' end
local err = text(pcall('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]))
if not err then
  err = join(5, #ARGV)
  if err then pcall('UNLINK', KEYS[2]) end
end
if err then return err end
if ARGV[4] ~= '' then shut(ARGV[5], ARGV[3], ARGV[4] == 'close') end
return ''
