package sim

import (
	"bytes"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
)

// peer is a Ruby worker: BRPOP over the queues, one job at a time, failures into
// the retry set. What it has popped is in no place of Redis; so nothing happens
// to a peer, but that Redis may fall back.
type peer struct {
	w    *world
	name string
	conn *conn
	job  *state
	idle time.Time // since then without one
	raw  string
	ends time.Time
}

// next is the peer's next step; do is nil when there is none.
func (p *peer) next() (from time.Time, key string, do func()) {
	if p.job != nil {
		if p.ends.Before(p.w.loading) {
			p.ends = p.w.loading
		}
		return p.ends, p.name + " ends " + p.job.name, p.end
	}
	for _, q := range queues {
		if p.w.redis.Type(keys.Queue(q)) == "list" {
			return p.w.loading, p.name + " brpop " + q, func() { p.pop(keys.Queue(q)) }
		}
	}
	return time.Time{}, "", nil
}

// blocked is since when the peer is blocked in its BRPOP, which it repeats every 2 s; zero
// when it is not.
func (p *peer) blocked() time.Time {
	since, now := p.idle, time.Now()
	if since.Before(p.w.loading) {
		since = p.w.loading
	}
	if p.job != nil || since.After(now) {
		return time.Time{}
	}
	return since.Add(now.Sub(since).Truncate(2 * time.Second))
}

// do has Redis carry out a command. The books are looked at when the hand is known.
func (p *peer) do(words ...string) []byte {
	if p.conn == nil {
		p.conn = newConn(p.w, &owner{name: p.name})
	}
	return p.w.dispatch(p.conn, words)
}

func (p *peer) pop(key string) {
	reply := p.do("RPOP", key)
	_, rest, _ := bytes.Cut(reply, []byte("\r\n"))
	p.raw = string(bytes.TrimSuffix(rest, []byte("\r\n")))
	p.job = p.w.book.job(jobOf(p.raw))
	p.w.say("      -> %s", p.job.name)
	p.job.ruby = true
	p.job.hand, p.ends = p.name, time.Now().Add(p.job.plan.Lasts)
	p.w.book.after(p.conn.owner, []string{"RPOP", key})
	p.w.book.runs(p.conn.owner, p.job)
}

func (p *peer) end() {
	s := p.job
	p.job, s.hand, p.idle = nil, "", time.Now()
	if p.w.book.failed(p.conn.owner, s) || p.w.book.ends(p.conn.owner, s) != nil {
		payload, err := troupe.ParsePayload([]byte(p.raw))
		if err != nil {
			panic(err)
		}
		payload.SetInt("retry_count", int64(s.failed-1))
		payload.SetString("error_class", "RuntimeError")
		score := fmt.Sprintf("%.3f", float64(time.Now().Add(2*time.Second).UnixMilli())/1000)
		p.do("ZADD", keys.Retry, score, string(payload.Bytes()))
	}
	p.w.book.after(p.conn.owner, []string{"ZADD"})
}
