-- define says what limits allow: see rules.lua.
--
-- KEYS[1]  BASElimits
-- ARGV[1]  'start': what a configuration says; a limit that was set by hand stays, and the text behind ' pinned ' is renewed
--          'keep': likewise, of limits that are not there
--          'set': by hand; 'reset': as the configuration says
-- ARGV[2..] name and text of each; of reset the text is ''
--
-- Returns how many limits are there now.

local count = 0
for i = 2, #ARGV, 2 do
  local name, text = ARGV[i], ARGV[i + 1]
  local now = redis.call('HGET', KEYS[1], name)
  local pinned, from = string.match(now or '', '^(.-) pinned ?(.*)$')
  if ARGV[1] == 'set' then
    text = text .. ' pinned ' .. (from or now or '')
  elseif ARGV[1] == 'reset' then
    text = from or now
  elseif now and ARGV[1] == 'keep' then
    text = nil
  elseif pinned then
    text = pinned .. ' pinned ' .. text
  end
  if text == '' then
    redis.call('HDEL', KEYS[1], name)
  elseif text and text ~= now then
    redis.call('HSET', KEYS[1], name, text)
  end
  if redis.call('HGET', KEYS[1], name) then count = count + 1 end
end
return count
