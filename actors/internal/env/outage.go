package env

import (
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Outage turns "Redis is away", or answers and refuses, into a state: one log line when the first part
// of the daemon finds out, one with the downtime when the last one is served
// again. Errors that are no outage (a key of the wrong type) are logged once per
// part and text until that part succeeds again.
type Outage struct {
	Ring func() // wakes the parts that wait; must not block; nil before there are any

	log   zerolog.Logger
	heart string // the part that is the last to end

	mu    sync.Mutex
	since time.Time
	back  time.Time         // of the first success after the last failure
	why   error             // of the last failure
	down  map[string]bool   // parts that wait for Redis
	fault map[string]string // part -> the error last logged
	ended bool              // the connections are being closed: errors mean nothing
	away  bool              // that Redis is away was told
	no    bool              // that it refuses was told
	over  time.Time         // when it was last told that Redis is back
	total time.Duration     // of the outages that are over
}

const (
	// afterOutage is how long after an outage parts may still meet its connections: a
	// half-open one shows when a call on it has timed out.
	afterOutage = 15 * time.Second
	// briefOutage is how long that may last before it is a new outage.
	briefOutage = 3 * time.Second
)

// NewOutage makes an Outage. heart is the part that is the last to end.
func NewOutage(log zerolog.Logger, heart string) *Outage {
	return &Outage{log: log, heart: heart, down: map[string]bool{}, fault: map[string]string{}}
}

// Failed records an error of part, and logs it if it is news.
func (o *Outage) Failed(part string, err error) {
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
			supervised.Tell(func() { logs.Err(o.log.Error().Str("actor", part), err).Msg("redis refused a command") })
		}
		return
	case redisconn.None, redisconn.Outage, redisconn.Auth:
	}
	o.back, o.why = time.Time{}, err
	now := time.Now()
	if len(o.down) == 0 {
		o.since = now
	}
	o.down[part] = true
	if !o.away && !o.no && now.Sub(o.over) <= afterOutage && now.Sub(o.since) <= briefOutage {
		return
	}
	switch refusal, refused := redisconn.Refused(err); {
	case refused && o.no || !refused && o.away:
	case refused:
		o.no = true
		supervised.Tell(func() {
			logs.Err(o.log.Error().Str("actor", part).Str("why", refusal.Text), err).Msg("redis refuses")
		})
	default:
		o.away = true
		supervised.Tell(func() { logs.Err(o.log.Error().Str("actor", part), err).Msg("redis is away") })
	}
}

// OK records a success of part.
func (o *Outage) OK(part string) {
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
		o.total += o.back.Sub(o.since)
		if o.away || o.no {
			text := "redis serves again"
			if o.away {
				text = "redis is back"
			}
			o.away, o.no, o.over = false, false, time.Now()
			supervised.Tell(func() { o.log.Warn().Float64("downtime_s", o.back.Sub(o.since).Seconds()).Msg(text) })
		}
		return
	}
	if o.Ring != nil {
		o.Ring() // the others may try at once
	}
}

// Leave is called for a part that ends: from now on the heart, which is the last
// to end, looks in its place whether Redis is back.
func (o *Outage) Leave(parts ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, part := range parts {
		if o.down[part] {
			delete(o.down, part)
			o.down[o.heart] = true
		}
	}
}

// Away tells whether any part waits for Redis: it is away, or refuses.
func (o *Outage) Away() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.down) > 0
}

// Since is when Redis went away; the zero time if it has not, and after Close.
func (o *Outage) Since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.down) == 0 || o.ended {
		return time.Time{}
	}
	return o.since
}

// Refusal is why Redis does not serve, if that is by its own word; else it is false: nobody answers.
func (o *Outage) Refusal() (redisconn.Refusal, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return redisconn.Refused(o.why)
}

// Total is how long Redis was away in all: each time from the first failure to the first
// success.
func (o *Outage) Total() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(o.down) == 0:
		return o.total
	case o.back.IsZero():
		return o.total + time.Since(o.since)
	}
	return o.total + o.back.Sub(o.since)
}

// Close ends the watch.
func (o *Outage) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}
