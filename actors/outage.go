package actors

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/jitter"
	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/internal/redisconn"
)

// outage turns "Redis is away" into a state: one log line when the first part
// of the daemon finds out, one with the downtime when the last one is served
// again. Errors that are no outage (a key of the wrong type) are logged once per
// part and text until that part succeeds again.
type outage struct {
	log  zerolog.Logger
	ring func() // wakes the parts that wait; must not block; nil in tests

	mu    sync.Mutex
	since time.Time
	back  time.Time         // of the first success after the last failure
	down  map[string]bool   // parts that wait for Redis
	fault map[string]string // part -> the error last logged
	ended bool              // the connections are being closed: errors mean nothing
	told  bool              // that Redis is away
	over  time.Time         // when it was last told that Redis is back
}

// afterOutage is how long after an outage parts may still meet broken connections
// of a pool, or the last error of its dialler, which go-redis repeats for a second.
const afterOutage = 3 * time.Second

func newOutage(log zerolog.Logger) *outage {
	return &outage{log: log, down: map[string]bool{}, fault: map[string]string{}}
}

// failed records an error of part, and logs it if it is news.
func (o *outage) failed(part string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	switch redisconn.Classify(err) {
	case redisconn.Local:
		return
	case redisconn.Command:
		if o.fault[part] != err.Error() {
			o.fault[part] = err.Error()
			joblog.Err(o.log.Error().Str("actor", part), err).Msg("redis refused a command")
		}
		return
	case redisconn.None, redisconn.Outage, redisconn.Auth:
	}
	o.back = time.Time{}
	now := time.Now()
	if len(o.down) == 0 {
		o.since = now
	}
	o.down[part] = true
	if !o.told && (now.Sub(o.over) > afterOutage || now.Sub(o.since) > afterOutage) {
		o.told = true
		joblog.Err(o.log.Error().Str("actor", part), err).Msg("redis is away")
	}
}

// ok records a success of part.
func (o *outage) ok(part string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.fault) > 0 {
		delete(o.fault, part)
	}
	if !o.down[part] {
		return
	}
	delete(o.down, part)
	if o.back.IsZero() {
		o.back = time.Now()
	}
	if len(o.down) == 0 {
		if o.told {
			o.told, o.over = false, time.Now()
			o.log.Warn().Float64("downtime_s", o.back.Sub(o.since).Seconds()).Msg("redis is back")
		}
		return
	}
	if o.ring != nil {
		o.ring() // the others may try at once
	}
}

// leaseGrace is how long other processes are still to be left alone: an outage that was
// longer than half a lease may have cost the living theirs as well, and they need
// a moment to renew them. It lasts half a lease from the first success on.
func (o *outage) leaseGrace(lease time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	half, now := lease/2, time.Now()
	switch {
	case o.back.IsZero() && len(o.down) > 0 && now.Sub(o.since) > half:
		return half
	case !o.back.IsZero() && o.back.Sub(o.since) > half:
		return max(0, half-now.Sub(o.back))
	}
	return 0
}

// leave is called for a part that ends: from now on the heart looks in its place
// whether Redis is back, which is the last to end.
func (o *outage) leave(parts ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range parts {
		if o.down[part] {
			delete(o.down, part)
			o.down[heart] = true
		}
	}
}

// heart is the part that the heartbeat is.
const heart = launcherName + "/heartbeat"

// away tells whether any part waits for Redis.
func (o *outage) away() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.down) > 0
}

// pause waits between two tries: 100 ms doubled up to 2 s, half of it random,
// so that a fleet does not come back in step. False when ctx ended. what names
// who waits.
func (d *Daemon) pause(ctx context.Context, what string, try int) bool {
	wait := min(100*time.Millisecond<<min(try, 5), 2*time.Second)
	t := time.NewTimer(jitter.Half(wait, d.identity, what))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// close ends the watch.
func (o *outage) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}
