package fetch

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/jitter"
)

// sitting is a take that comes to rest when it finds less than it asked for.
type sitting struct {
	bell  *doorbell
	ears  *ears
	hand  bool
	rung  bool // the bell is the reason for this take
	flags string
}

// begin is called before a take. nil: the fetcher has never waited, or another
// call is at it. spread: it has other jobs in progress, and would rather hand
// the baton on than take one more.
func (d *doorbell) begin(spread bool) *sitting {
	select {
	case d.turn <- struct{}{}:
	default:
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.ears
	if e == nil || d.closed || d.deaf(e) {
		<-d.turn
		return nil
	}
	d.nudge.Stop()
	if isClosed(d.rung) {
		d.rung = make(chan struct{})
	}
	s := &sitting{bell: d, ears: e, rung: d.unheeded && d.seat != deputy}
	s.hand = (d.seat == listener || d.seat == deputy) && time.Since(e.used) < freshTime
	s.flags = d.flags(e, spread)
	d.arming, d.crossed, d.handed, d.late, d.unheeded = s.hand, false, away, false, false
	return s
}

// via is the connection for the take: for the listener and its deputy the one by
// which a push is to ring, else any: reading on that one would arm it for nothing.
func (s *sitting) via(rdb *redis.Client) processor {
	if s == nil || !s.hand {
		return rdb
	}
	s.ears.used = time.Now()
	return s.ears.hand
}

// end is called after the take, which got so many units; seat is "" when its
// reply did not tell.
func (s *sitting) end(seat string, got int, err error) {
	if s == nil {
		return
	}
	s.bell.count(s.rung, got, err)
	s.bell.settle(s.ears, seat, err, s.hand)
	<-s.bell.turn
}

// settle notes the outcome of a call.
func (d *doorbell) settle(e *ears, seat string, err error, hand bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.arming, d.next = false, time.Now().Add(lookTime)
	d.stray = d.stray || err != nil // its reply may be what was lost
	if d.ears != e {
		return
	}
	if hand && err != nil && !redis.HasErrorPrefix(err, "FENCED") {
		d.drop(e)
		return
	}
	if seat != "" && seat != "ready" {
		d.stray = false
	}
	seat, length, _ := strings.Cut(seat, " ")
	switch seat {
	case "hold":
		if d.seat != listener || time.Since(d.renewed) >= lookTime/2 {
			d.renewed = time.Now()
		}
		d.seat, d.armed = listener, hand && !d.crossed
		return
	case "second":
		d.seat, d.armed = deputy, hand && !d.crossed
	case "wait":
		d.seat = queued
		d.next = time.Now().Add(d.patience(atoi(length)))
	case "ready":
	default:
		d.seat = away
	}
	if d.handed != away { // after the reply was written
		d.seat, d.armed = d.handed, false
	}
}

// patience is how long one that stands in a line of n goes without a look: the
// line as a whole looks four times in lookTime, nobody more often than once in
// it, and everybody once in lineTime. Those who began together drift apart.
func (d *doorbell) patience(n int) time.Duration {
	every := min(max(time.Duration(n)*lookTime/4, lookTime), lineTime)
	less := time.Duration(jitter.Rand(d.name, "look").Int64N(int64(every / 4)))
	return max(every-less, lookTime)
}

// ride adds to p the question whether anybody has the baton; nil for one who does
// not stand in the line.
func (d *doorbell) ride(ctx context.Context, p redis.Pipeliner) *redis.IntCmd {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seat != queued {
		return nil
	}
	return p.Exists(ctx, d.keys[0].(string))
}

// rode takes the answer. Where nobody has it a push would ring for nobody, until a
// look that may be minutes away: as many have died at once, the line was lost.
func (d *doorbell) rode(baton *redis.IntCmd) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if baton.Err() == nil && baton.Val() == 0 && d.seat == queued {
		d.late = true
		d.ring()
	}
}

// overdue tells whether it is time for a look that nothing has asked for: also
// when an echo is missing, since then nothing may ever ask. d.mu is held.
func (d *doorbell) overdue() bool {
	return d.ears == nil || !d.ears.asked.IsZero() || !time.Now().Before(d.next)
}

// flags are those of baton.lua. d.mu is held.
func (d *doorbell) flags(e *ears, spread bool) string {
	flags := ""
	if d.seat != away {
		flags = "s"
	}
	if spread {
		flags += "b"
	}
	if d.late {
		flags += "l"
	}
	if d.seat == listener && time.Since(d.renewed) < lookTime/2 {
		flags += "k"
	}
	if now := time.Now(); now.Sub(e.heard) > lookTime/2 && e.asked.IsZero() {
		e.asked = now
		flags += "e"
	}
	return flags
}

// deaf tells whether an echo is missing: then the connection is dead, though
// nothing has closed it. d.mu is held.
func (d *doorbell) deaf(e *ears) bool {
	if e.asked.IsZero() || time.Since(e.asked) < earTimeout {
		return false
	}
	d.drop(e)
	return true
}

// count counts the rings that came to nothing, one after the other: pushes to
// queues of the same name in another database, or jobs that a blocked BRPOP got
// within the push. They must not make a fetcher look thousands of times a second.
func (d *doorbell) count(rung bool, got int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looked = time.Now()
	switch {
	case err != nil:
	case got > 0:
		d.vain = 0
	case rung:
		d.vain++
	}
}

// breather is how long the next ring has to wait.
func (d *doorbell) breather() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.vain < vainRings {
		return 0
	}
	return time.Until(d.looked.Add(vainPause))
}
