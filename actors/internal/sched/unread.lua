-- Takes a due member out of the way that is too large to be carried to a process,
-- without sending it. On one server a job goes to its queue as it is, anything else
-- to dead. On a cluster, where those are in other slots, it waits beside the set.
--
-- KEYS    1 the set, then on one server 2 queues, 3 dead (and the list of the queue,
--         which only the member names), on a cluster 2 the set of claimed members
-- ARGV    1 lowest score, as ZRANGE takes it, 2 members to leave out from there on
--         3 length of the member; one of another length is left alone
--         4 how long it waits in ms (cluster)
--         5 score of a death, 6 the trim of dead, see bound
-- returns {"" or the key where it is now, its class or "", its jid or ""}
-- errors  WRONGTYPE of the set or of dead; the member stays. What a broken list
--         refuses goes to dead
--
-- Out of memory Redis refuses a script's first write that needs some. So the first
-- write removes nothing.
local set = KEYS[1]
redis.call('ZREMRANGEBYSCORE', set, '(0', '(0')
local t = redis.call('TIME')
local now = t[1] .. '.' .. string.format('%06d', tonumber(t[2]))
local member = redis.call('ZRANGE', set, ARGV[1], now, 'BYSCORE', 'LIMIT', ARGV[2], 1)[1]
if not member or #member ~= tonumber(ARGV[3]) then return {'', '', ''} end

if #KEYS == 2 then
  redis.call('ZADD', KEYS[2], string.format('%d', t[1] * 1000 + math.floor(t[2] / 1000) + ARGV[4]), member)
  redis.call('ZREM', set, member)
  return {KEYS[2], '', ''}
end

local function text(v) return type(v) == 'string' and v or '' end

local ok, job = pcall(cjson.decode, member)
if not ok or type(job) ~= 'table' then job = {} end
local class, jid, queue = text(job.class), text(job.jid), job.queue == nil and 'default' or text(job.queue)
local to, pushed = 'queue:' .. queue, nil
if class ~= '' and type(job.args) == 'table' and queue ~= '' then pushed = redis.pcall('LPUSH', to, member) end
if type(pushed) == 'number' then
  redis.pcall('SADD', KEYS[2], queue)
else
  to = KEYS[3]
  redis.call('ZADD', to, ARGV[5], member)
  bound(to, ARGV[6])
end
redis.call('ZREM', set, member)
return {to, class, jid}
