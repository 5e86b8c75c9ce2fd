-- sit: a fetcher comes to rest, or leaves its seat.
--
-- KEYS[1]  baton of the set of queues
-- KEYS[2]  line
-- KEYS[3]  set of paused queues, by bare name
-- KEYS[4..] queues
-- ARGV[1]  name of the fetcher
-- ARGV[2]  flags, see baton.lua
-- ARGV[3]  "1" to leave
--
-- Returns (0, 'hold' | 'second' | 'wait N' | 'off' | 'ready', -i, "" for a paused queue i);
-- 'ready': a queue has jobs, nothing has changed. When the fetcher holds the
-- baton, or is second, the connection's tracking is armed: reading the keys is the last step,
-- since a later write of our own would quietly disarm it.

pcall('PERSIST', KEYS[1]) -- see room in take.lua
if ARGV[3] == '1' then return {0, sit(KEYS[1], KEYS[2], ARGV[1], ARGV[2], false, 0)} end

local out, ready = {0, ''}, false
local any = call('EXISTS', KEYS[3]) == 1
for k = 4, #KEYS do
  if any and pcall('SISMEMBER', KEYS[3], string.sub(KEYS[k], 7)) == 1 then -- behind "queue:"
    out[#out + 1] = 3 - k
    out[#out + 1] = ''
  else
    local n = pcall('LLEN', KEYS[k])
    ready = ready or type(n) == 'number' and n > 0
  end
end
out[2] = ready and 'ready' or sit(KEYS[1], KEYS[2], ARGV[1], ARGV[2], true, 0)
if out[2] == 'hold' or out[2] == 'second' then call('EXISTS', unpack(KEYS, 3)) end
return out
