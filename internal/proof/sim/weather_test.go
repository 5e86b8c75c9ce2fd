package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/keys"
)

// Trouble is a time in which Redis refuses some of what it is asked.
type Trouble struct {
	At, For time.Duration
	Key     string // holds a text meanwhile, if it is not there at the time; "": Redis is out of memory
}

// trouble plans the troubles.
func (w *world) trouble() {
	for _, t := range w.plan.Troubles {
		w.after(t.At, func() {
			until := time.Now().Add(t.For)
			switch {
			case t.Key == "":
				w.full = until
				w.seen["trouble: out of memory"]++
			case w.redis.Exists(t.Key):
				return
			default:
				_ = w.redis.Set(t.Key, spoilt)
				w.seen["trouble: wrong type of "+t.Key[:2]]++
				w.after(t.For, func() { w.restoreKey(t.Key) })
			}
			w.say("      trouble for %s: %s", t.For, t.Key)
			w.refusing = until
			for _, p := range w.all {
				p.faulted = later(p.faulted, until)
			}
		})
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// restoreKey ends the trouble of a key.
func (w *world) restoreKey(key string) {
	if w.redis.Type(key) == "string" {
		w.redis.Del(key)
	}
}

// troubled are the keys that a plan may have a wrong type for.
func troubled(jobs []Job) []string {
	all := []string{keys.Queue("a"), keys.Queue("b"), keys.Retry, keys.Schedule}
	for i, j := range jobs {
		if j.Items > 0 {
			all = append(all, keys.Iteration((&state{number: i + 1}).jid()))
		}
	}
	return all
}

const spoilt = "no list, set or hash"

const outOfMemory = "-OOM command not allowed when used memory > 'maxmemory'.\r\n"

// needs are the commands that Redis refuses when it is out of memory.
const needs = "RPUSH LPUSH RPUSHX LPUSHX LSET LINSERT LMOVE BLMOVE RPOPLPUSH SADD ZADD ZINCRBY HSET HSETNX HMSET HINCRBY HINCRBYFLOAT SET SETEX PSETEX SETNX SETBIT INCR INCRBY APPEND"

func isNeedy(words []string) bool {
	return slices.Contains(strings.Fields(needs), strings.ToUpper(words[0]))
}

// oomHead is put before a script that runs out of memory. As in Redis, one that has begun to write may go on.
const oomHead = `local dirty, needs, reads = false, {}, {}
for c in string.gmatch('` + needs + `', '%S+') do needs[c] = true end
for c in string.gmatch('GET MGET EXISTS TYPE TTL PTTL LLEN LRANGE LINDEX LPOS HGET HMGET HGETALL HLEN HEXISTS HKEYS SISMEMBER SMEMBERS SCARD ZSCORE ZCARD ZRANGE ZRANGEBYSCORE ZCOUNT TIME', '%S+') do reads[c] = true end
local function gate(f, protected)
  return function(cmd, ...)
    local c = string.upper(cmd)
    if needs[c] and not dirty then
      local err = redis.error_reply("OOM command not allowed when used memory > 'maxmemory'.")
      if protected then return err end
      error(err.err)
    end
    dirty = dirty or not reads[c]
    return f(cmd, ...)
  end
end
redis.call, redis.pcall = gate(redis.call, false), gate(redis.pcall, true)
`

// short has a command meet a Redis that is out of memory: with refusal it is not carried out.
func (w *world) short(words []string) (changed []string, refusal []byte) {
	if !time.Now().Before(w.full) {
		return words, nil
	}
	src := ""
	switch strings.ToLower(words[0]) {
	case "eval":
		src = words[1]
	case "evalsha":
		if src = scripts()[words[1]].src; src == "" || !w.loaded[words[1]] && !w.preloaded {
			return words, nil // it is unknown here
		}
	default:
		if isNeedy(words) {
			return words, []byte(outOfMemory)
		}
		return words, nil
	}
	return append([]string{"EVAL", oomHead + src}, words[2:]...), nil
}
