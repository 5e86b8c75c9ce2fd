package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/troupehq/troupe/internal/keys"
)

// tracking is CLIENT TRACKING ON REDIRECT ... NOLOOP, which the embedded Redis
// does not have: as Redis from 7.2 on does it, where a script tracks the keys of
// the reads in it. Only keys count that somebody listens for.
type tracking struct {
	off   bool                     // refused, as by an old server: fetchers peek
	at    *conn                    // whose command is being carried out
	armed map[string]map[*conn]int // key -> connection that has read it -> whom to tell
	bells []ring                   // on their way
}

// ring is one invalidation message.
type ring struct {
	to  int
	key string
}

// of answers CLIENT of a connection. w.mu is held.
func (tr *tracking) of(c *conn, words []string) []byte {
	switch {
	case tr.off || len(words) < 2:
	case strings.EqualFold(words[1], "id"):
		return fmt.Appendf(nil, ":%d\r\n", c.id)
	case strings.EqualFold(words[1], "tracking") && len(words) > 4:
		id, err := strconv.Atoi(words[4])
		if err != nil || !slices.ContainsFunc(c.w.conns, func(to *conn) bool { return to.id == id && !to.cut && !to.closed }) {
			return []byte("-ERR The client ID you want redirect to does not exist\r\n")
		}
		c.redirect = id
		return []byte("+OK\r\n")
	}
	return []byte("-ERR unknown command\r\n")
}

var (
	trackedReads = map[string]bool{"EXISTS": true, "LLEN": true, "LRANGE": true, "ZRANGEBYSCORE": true, "ZRANGE": true, "ZCARD": true, "SISMEMBER": true}
	writes       = map[string]bool{
		"LPUSH": true, "RPUSH": true, "LPOP": true, "RPOP": true, "LTRIM": true, "LREM": true, "LMOVE": true, "DEL": true,
		"ZADD": true, "ZREM": true, "ZREMRANGEBYSCORE": true, "ZREMRANGEBYRANK": true, "ZPOPMIN": true, "SADD": true, "SREM": true,
	}
)

// hook sees every command that Redis carries out, those of scripts too. A read
// arms its keys, a write tells of its key, once, and not the one who wrote.
func (tr *tracking) hook(_ *server.Peer, name string, args ...string) bool {
	switch c := tr.at; {
	case c == nil:
	case trackedReads[name] && c.redirect != 0:
		if name != "EXISTS" {
			args = args[:1]
		}
		for _, key := range args {
			if !strings.HasPrefix(key, keys.Queue("")) && key != keys.Retry && key != keys.Schedule && key != keys.Paused {
				continue
			}
			if tr.armed[key] == nil {
				tr.armed[key] = map[*conn]int{}
			}
			tr.armed[key][c] = c.redirect
		}
	case writes[name]:
		var to []int
		for by, id := range tr.armed[args[0]] {
			if by != c {
				to = append(to, id)
			}
		}
		delete(tr.armed, args[0])
		slices.Sort(to)
		for _, id := range to {
			tr.bells = append(tr.bells, ring{id, args[0]})
		}
	}
	return false
}

// deliver brings the invalidations to who listens, one after the other.
func (w *world) deliver() {
	for len(w.tracking.bells) > 0 {
		b := w.tracking.bells[0]
		w.tracking.bells = w.tracking.bells[1:]
		w.mu.Lock()
		i := slices.IndexFunc(w.conns, func(c *conn) bool { return c.id == b.to && !c.gone })
		if i >= 0 {
			const channel = "__redis__:invalidate"
			w.say("      rings at %s: %s", w.conns[i].owner.name, b.key)
			w.seen["bell rung by Redis"]++
			w.conns[i].give(fmt.Appendf(nil, "*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n*1\r\n$%d\r\n%s\r\n", len(channel), channel, len(b.key), b.key))
		}
		w.mu.Unlock()
		w.settle()
		time.Sleep(time.Microsecond)
	}
}
