-- lock: takes, extends or releases the lock of the one rescuer.
--
-- KEYS[1]  lock
-- ARGV[1]  token of its holder
-- ARGV[2]  time to live, ms; 0 releases it
-- ARGV[3]  "1" to take it if it is free, or held by this process
-- ARGV[4]  what all tokens of this process begin with, "" if nothing
--
-- Returns 1, or 0 when somebody else or nobody holds it.

local holder = redis.call('GET', KEYS[1])
local own = holder and ARGV[4] ~= '' and string.sub(holder, 1, #ARGV[4]) == ARGV[4]
if ARGV[3] == '1' and (own or not holder) then
  redis.call('PERSIST', KEYS[1]) -- see room in take.lua
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
if holder ~= ARGV[1] then return 0 end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
