-- bite: how scripts read jobs from the right end of a queue, no more bytes than are
-- wanted. This is the head of those that take.
--
-- Nobody knows how large the next jobs are before they are read. So they are read few at
-- a time: what is read in vain costs Redis a copy, and reaches nobody.

-- bite returns up to want jobs of a list, the oldest first, behind the older ones, and their
-- bytes; it ends with the job that makes them room or more. An error text in the end, if any.
local function bite(list, older, want, room)
  local jobs, size, piece = {}, 0, 8
  while #jobs < want and size < room do
    local n, last = math.min(piece, want - #jobs), older + #jobs
    local found = redis.pcall('LRANGE', list, -last - n, -last - 1)
    if found.err then return jobs, size, found.err end
    for j = #found, 1, -1 do
      if size >= room then break end
      jobs[#jobs + 1], size = found[j], size + #found[j]
    end
    if #found < n then break end
    piece = 64
  end
  return jobs, size
end

