package actors

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/words"
)

const (
	stallTime   = time.Minute      // how long a part may do nothing before the daemon is not Live
	overdueTime = 10 * time.Second // how late a stop may be before it is not
	awayTime    = 5 * time.Second  // how long Redis may be away before it is not Ready
	maxReasons  = 20               // of a Check
)

// Health tells how a daemon is. It is a snapshot; nobody changes it.
type Health struct {
	// Phase is "starting", "running", "quiet", "stopping" or "ended".
	Phase string
	// Started: the process is registered in Redis, and each fetcher has had an answer. What
	// has been started stays so.
	Started Check
	// Live: each actor works, or is due to restart, the log is read, and a stop is not overdue. If not, and it has
	// been so for a minute, or 10 s for a stop, nothing but a new process helps. Redis away, busy
	// processors, unresponsive jobs and quiet are no reasons.
	Live Check
	// Ready: it is started and takes jobs: Redis has not been away, or refused what it is asked for, for
	// 5 s or longer, and the daemon is neither quiet nor stopping nor fenced.
	Ready Check

	Busy, Slots int            // jobs that run, and processors
	Running     map[string]int // jobs that were fetched and are not settled, by queue
}

// Check is the answer to one question about a daemon: the reasons against it, at most 20. Without any it is yes.
type Check []Reason

// OK tells whether there is no reason against it.
func (c Check) OK() bool { return len(c) == 0 }

// Reason is why a Check has failed.
type Reason struct {
	// Code is one of those in docs/deployment.md, such as "actor_down".
	Code string `json:"code"`
	// Text names the actor, and since when.
	Text string `json:"text"`
}

func (c *Check) add(code, format string, args ...any) {
	if len(*c) < maxReasons {
		*c = append(*c, Reason{Code: code, Text: fmt.Sprintf(format, args...)})
	}
}

// Health tells how the daemon is, from memory: it waits for nothing but its own locks, and
// may be called at any time.
func (d *Daemon) Health() Health {
	now := time.Now()
	h := Health{Phase: d.healthPhase(), Running: map[string]int{}}
	d.startedHealth(&h.Started, now)
	switch h.Phase {
	case "running", "quiet":
		d.treeHealth(&h.Live, now)
	case "stopping":
		if late := now.Sub(d.deadline().Add(requeueTime + d.cfg.Grace + endTime)); late >= overdueTime {
			h.Live.add("stop_overdue", "the stop is overdue for %s", words.Few(late))
		}
	case "ended":
		if err := d.Err(); err != nil {
			h.Live.add("gave_up", "the daemon has stopped by itself: %s", words.FirstLine(err.Error(), 200))
		}
	}
	d.readyHealth(&h, now)
	for _, c := range d.capsules {
		h.Busy += int(c.pool.busy.Load())
		h.Slots += c.config().Concurrency
		for _, w := range c.ledger.All() {
			h.Running[w.Unit.Queue]++
		}
	}
	return h
}

// healthPhase is the phase as it is shown. What ends is stopping until it has ended.
func (d *Daemon) healthPhase() string {
	select {
	case <-d.ended:
		return "ended"
	default:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case !d.running:
		return "starting"
	case d.state >= phaseStopping:
		return "stopping"
	case d.quieting.Load():
		return "quiet"
	}
	return "running"
}

func (d *Daemon) startedHealth(why *Check, now time.Time) {
	d.mu.Lock()
	running, registered, since := d.running, d.registered, now.Sub(d.info.StartedAt)
	d.mu.Unlock()
	if !running {
		why.add("starting", "the daemon has not started, %s after it was made", words.Few(since))
		return
	}
	if !registered {
		why.add("unregistered", "%s has not reached Redis for %s", heart, words.Few(since))
	}
	for _, c := range d.capsules {
		if c.intake.silent() {
			why.add("no_fetch", "%s has had no answer for %s", c.path("fetcher"), words.Few(since))
		}
	}
}

// treeHealth finds the parts that do nothing. Those below an actor that is named go down with it.
func (d *Daemon) treeHealth(why *Check, now time.Time) {
	named := map[string]bool{}
	below := func(path string) bool {
		for ; path != ""; path, _ = supervised.SplitPath(path) {
			if named[path] {
				return true
			}
		}
		return false
	}
	for _, s := range d.env.System.Stalled(now, stallTime) {
		if below(s.Path) || s.State == supervised.Stopped && !d.misses(s) {
			continue
		}
		named[s.Path] = true
		lasted := words.Few(s.For)
		switch {
		case s.Strategy != "":
			why.add("strategy_blocked", "%s has waited for its strategy %s for %s", s.Path, s.Strategy, lasted)
		case s.State == supervised.Running:
			why.add("mailbox_stuck", "%s has taken no message for %s, and %d wait", s.Path, lasted, s.Waiting)
		default:
			why.add("actor_down", "%s has been %s for %s", s.Path, s.State, lasted)
		}
	}
	for _, c := range d.capsules {
		late := c.intake.overdue(now)
		if path := c.path("fetcher"); late >= stallTime && !below(path) {
			why.add("fetch_stuck", "%s has waited for a call that does not return for %s", path, words.Few(late))
		}
	}
	if s := d.log.State(); s.Blocked >= stallTime {
		why.add("log_blocked", "the log has taken no line for %s: %s", words.Few(s.Blocked), droppedLines(s))
	}
	d.mu.Lock()
	since := now.Sub(d.beatAt)
	d.mu.Unlock()
	if since >= d.cfg.HeartbeatInterval+stallTime && !below(heart) {
		why.add("beat_late", "%s has not come to a beat for %s", heart, words.Few(since))
	}
}

// misses tells whether the daemon lacks an actor that has stopped: one that its strategy has
// stopped for good, unless it is one of several processors.
func (d *Daemon) misses(s supervised.Stall) bool {
	switch s.Role {
	case "heartbeat", "rescuer":
		return true
	case "poller":
		return !d.quieting.Load()
	}
	for _, c := range d.capsules {
		if c.whoQuieted() == s.Path {
			return true
		}
	}
	return false
}

func (d *Daemon) readyHealth(h *Health, now time.Time) {
	h.Ready = append(h.Ready, h.Started...)
	if since := d.env.Outage.Since(); !since.IsZero() && now.Sub(since) >= awayTime {
		lasted := words.Few(now.Sub(since))
		if r, refused := d.env.Outage.Refusal(); refused {
			h.Ready.add("redis_refuses", "Redis has refused calls for %s: %s (%s)", lasted, r.Text, r.Code)
		} else {
			h.Ready.add("redis_away", "Redis has been away for %s", lasted)
		}
	}
	switch {
	case h.Phase == "running" && d.allQuiet():
		h.Ready.add("quiet", "all capsules are quiet")
	case h.Phase != "starting" && h.Phase != "running":
		h.Ready.add(h.Phase, "the phase of the daemon is %s", h.Phase)
	}
	for _, c := range d.capsules {
		if since := c.intake.fencedSince(); !since.IsZero() {
			h.Ready.add("fenced", "%s has been fenced for %s", c.path("fetcher"), words.Few(now.Sub(since)))
		}
	}
}

// noteBeat notes that a beat is over.
func (d *Daemon) noteBeat(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.beatAt = time.Now()
	d.registered = d.registered || err == nil
}

// Queues is for package ops, which reads how much waits in the queues of the daemon: each has the
// client that sees it and what is in progress of it as package inspect does; nil if its system keeps
// jobs in another way.
func (d *Daemon) Queues() map[string]redis.UniversalClient {
	all := make(map[string]redis.UniversalClient)
	for _, c := range d.capsules {
		for _, name := range c.config().Queues.List().Names() {
			if all[name] = nil; c.system.wire.Fetch == nil {
				all[name] = c.system.redis
			}
		}
	}
	return all
}
