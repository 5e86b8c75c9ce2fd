-- cluster_mark: writes the generation of a fetcher into its private place of one
-- queue, and tells what calls of an earlier one took.
--
-- KEYS[1]  hash of what it has in progress from the queue; field ! is the fence
-- ARGV[1]  generation
-- ARGV[2]  after so many bytes it ends, whatever follows; one unit it tells at least
-- ARGV[3]  receipt up to which earlier pages have told all, "" for the first page
-- ARGV[4..] prefixes of the receipts that failed calls could have made
--
-- Returns {"DEAD"} when a rescuer has shut the place, {"SICK", error text} for a
-- key of the wrong type, else {"OK", or "LOST" when there was no fence, "more" or "",
-- (receipt, job)*}. Pages are as those of resume. Error FENCED to a mark that comes
-- late, when the fence holds a later generation: nothing has changed then.
--
-- The new generation refuses whatever of the old one is still on its way.

local fence = redis.pcall('HGET', KEYS[1], '!')
if type(fence) == 'table' and fence.err then return {'SICK', fence.err} end
if fence and string.sub(fence, 1, 4) == 'dead' then return {'DEAD'} end
if fence and (tonumber(fence) or 0) > tonumber(ARGV[1]) then
  return redis.error_reply('FENCED the fence holds ' .. fence .. ', a later generation than ' .. ARGV[1])
end
redis.call('PERSIST', KEYS[1]) -- see room in take.lua
redis.call('HSET', KEYS[1], '!', ARGV[1])

-- Not by comparing text: that goes by the locale of the server.
local function number(r) return tonumber(string.gsub(r, '^%?', ''), 36) end
local function older(a, b) return #a < #b or #a == #b and number(a) < number(b) end

local calls, held = {}, {}
for a = 4, #ARGV do calls[ARGV[a]] = true end
for _, field in ipairs(next(calls) and redis.call('HKEYS', KEYS[1]) or {}) do
  if calls[string.sub(field, 1, -4)] and older(ARGV[3], field) then held[#held + 1] = field end
end
table.sort(held, older)

local out, size = {fence and 'OK' or 'LOST', ''}, 0
for _, field in ipairs(held) do
  if size >= tonumber(ARGV[2]) then
    out[2] = 'more'
    break
  end
  local job, o = redis.call('HGET', KEYS[1], field), #out
  out[o + 1], out[o + 2] = field, job
  size = size + #field + #job
end
return out
