package actors

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/beat"
)

// Limits end a capsule by themselves: it fetches nothing any more, its running jobs end, and
// when that is so of all capsules of a daemon, the daemon stops. The zero value has none.
type Limits struct {
	// Empty is reached when a look at the queues finds nothing, and nothing runs.
	Empty bool
	// Jobs is how many jobs are run; 0 is without limit.
	Jobs int
	// Time is how long jobs are fetched; 0 is without limit.
	Time time.Duration
	// Memory is how many bytes of memory the process may have (its resident set). It is
	// looked at before a fetch, once a second at most. One capsule that reaches it ends the
	// daemon, with ErrMemory. 0 is without limit.
	Memory int64
}

// ErrMemory is why a daemon has stopped by itself whose process has more memory than
// Limits.Memory.
var ErrMemory = errors.New("actors: the process has more memory than a capsule's Limits.Memory")

// What ends a capsule by itself. The last two end all capsules of a daemon.
const (
	limitEmpty  = "its queues are empty"
	limitJobs   = "it has run as many jobs as it may"
	limitTime   = "its time is over"
	limitMemory = "the process has as much memory as it may"
	limitAsked  = "its system has told its workers to end"
)

// limitTick is how often a capsule with limits looks at its queues, and at its memory.
const limitTick = time.Second

// limiting is the state of the limits of an intake.
type limiting struct {
	by      string // the limit that was reached
	began   time.Time
	weighed time.Time // the last look at the memory
	heavy   bool      // it was too much
	found   bool      // the last Take has, or a job has ended since
}

// limitLocked tells which limit has been reached; "" is none.
func (in *intake) limitLocked(now time.Time) string {
	l, p := in.c.cfg.Limits, &in.c.pool
	if in.began.IsZero() {
		in.began, in.found = now, true
	}
	switch {
	case l.Jobs > 0 && p.begun >= l.Jobs:
		return limitJobs
	case l.Time > 0 && now.Sub(in.began) >= l.Time:
		return limitTime
	case l.Empty && !in.found && p.running == 0 && len(p.inbox) == 0 && len(p.left) == 0:
		return limitEmpty
	case in.heavy:
		return limitMemory
	}
	return ""
}

// weigh looks at the memory of the process, which takes a file.
func (in *intake) weigh(now time.Time) {
	c, most := in.c, in.c.cfg.Limits.Memory
	c.mu.Lock()
	due := most > 0 && now.Sub(in.weighed) >= limitTick
	c.mu.Unlock()
	if !due {
		return
	}
	heavy := beat.RSS()*1024 > most
	c.mu.Lock()
	defer c.mu.Unlock()
	in.weighed, in.heavy = now, heavy
}

// withinLocked is how many of n jobs may be taken.
func (in *intake) withinLocked(n int) int {
	if most := in.c.cfg.Limits.Jobs; most > 0 {
		n = min(n, most-in.c.pool.begun-len(in.c.pool.inbox))
	}
	return max(0, n)
}

// waitLimitLocked is how long a wait may be.
func (in *intake) waitLimitLocked() time.Duration {
	d, l := waitTime, in.c.cfg.Limits
	if l.Empty || l.Memory > 0 {
		d = limitTick
	}
	if l.Time > 0 {
		d = min(d, max(0, time.Until(in.began.Add(l.Time))))
	}
	return d
}

// reached notes that a limit was reached; false if one was before.
func (in *intake) reached(limit string) bool {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	if in.by != "" {
		return false
	}
	in.by = limit
	return true
}

func (in *intake) isLimited() bool {
	in.c.mu.Lock()
	defer in.c.mu.Unlock()
	return in.by != ""
}

// reach ends the fetching because of a limit.
func (c *capsule) reach(limit string) {
	if !c.intake.reached(limit) {
		return
	}
	c.env.Log.Info().Str("capsule", c.cfg.Name).Str("limit", limit).Msg("a limit was reached: no new jobs will be fetched")
	c.events.publish(event.CapsuleQuiet{At: time.Now(), Capsule: c.cfg.Name, Err: fmt.Errorf("a limit was reached: %s", limit)})
	c.beginQuiet()
	c.env.System.Send(c.Path(), supervised.Wake{})
	c.onLimit(limit)
}

// limitReached stops the daemon when all capsules have come to their ends.
func (d *Daemon) limitReached(limit string) {
	for _, c := range d.capsules {
		if limit == limitMemory || limit == limitAsked {
			c.reach(limit)
		}
		if !c.intake.isLimited() {
			return
		}
	}
	d.mu.Lock()
	again := d.limitEnds
	d.limitEnds = true
	d.mu.Unlock()
	if again {
		return
	}
	d.env.System.Spawn(heart, func() {
		if !d.env.Changes.Await(d.env.Settling, d.allDrained) {
			return
		}
		d.mu.Lock()
		if d.fatal == nil && limit == limitMemory {
			d.fatal = ErrMemory
		}
		d.mu.Unlock()
		d.beginStop(d.cfg.Timeout)
	})
}
