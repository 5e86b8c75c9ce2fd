package show

import (
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/tree"
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

// Health tells how the daemon is.
func (v *View) Health() Health {
	h := Health{Phase: v.Phase, Running: map[string]int{}}
	v.started(&h.Started)
	switch h.Phase {
	case "running", "quiet":
		v.live(&h.Live)
	case "stopping":
		if late := v.Now.Sub(v.StopEnd); late >= overdueTime {
			h.Live.add("stop_overdue", "the stop is overdue for %s", words.Few(late))
		}
	case "ended":
		if v.Err != nil {
			h.Live.add("gave_up", "the daemon has stopped by itself: %s", words.FirstLine(v.Err.Error(), 200))
		}
	}
	v.ready(&h)
	for i := range v.Capsules {
		c := &v.Capsules[i]
		h.Busy += c.Busy
		h.Slots += c.Concurrency
		for queue, n := range c.Unsettled {
			h.Running[queue] += n
		}
	}
	return h
}

func (v *View) started(why *Check) {
	lasted := words.Few(v.Now.Sub(v.Since))
	if !v.Running {
		why.add("starting", "the daemon has not started, %s after it was made", lasted)
		return
	}
	if !v.Registered {
		why.add("unregistered", "%s has not reached Redis for %s", v.Heart, lasted)
	}
	for i := range v.Capsules {
		if c := &v.Capsules[i]; c.Silent {
			why.add("no_fetch", "%s has had no answer for %s", c.fetcher(), lasted)
		}
	}
}

// live finds the parts that do nothing. Those below an actor that is named go down with it.
func (v *View) live(why *Check) {
	named := map[string]bool{}
	below := func(path string) bool {
		for ; path != ""; path, _ = supervised.SplitPath(path) {
			if named[path] {
				return true
			}
		}
		return false
	}
	for _, s := range v.System.Stalled(v.Now, stallTime) {
		if below(s.Path) || s.State == tree.StateStopped && !v.misses(s) {
			continue
		}
		named[s.Path] = true
		lasted := words.Few(s.For)
		switch {
		case s.Strategy != "":
			why.add("strategy_blocked", "%s has waited for its strategy %s for %s", s.Path, s.Strategy, lasted)
		case s.State == tree.StateRunning:
			why.add("mailbox_stuck", "%s has taken no message for %s, and %d wait", s.Path, lasted, s.Waiting)
		default:
			why.add("actor_down", "%s has been %s for %s", s.Path, s.State, lasted)
		}
	}
	for i := range v.Capsules {
		c := &v.Capsules[i]
		late := v.Now.Sub(c.CallDue)
		if !c.CallDue.IsZero() && late >= stallTime && !below(c.fetcher()) {
			why.add("fetch_stuck", "%s has waited for a call that does not return for %s", c.fetcher(), words.Few(late))
		}
	}
	if v.Log.Blocked >= stallTime {
		why.add("log_blocked", "the log has taken no line for %s: %s dropped", words.Few(v.Log.Blocked), words.Plural(int64(v.Log.Dropped), "line"))
	}
	if since := v.Now.Sub(v.BeatAt); since >= v.BeatEvery+stallTime && !below(v.Heart) {
		why.add("beat_late", "%s has not come to a beat for %s", v.Heart, words.Few(since))
	}
}

// misses tells whether the daemon lacks an actor that has stopped: one that its strategy has
// stopped for good, unless it is one of several processors.
func (v *View) misses(s supervised.Stall) bool {
	switch s.Role {
	case "heartbeat", "rescuer", "outbox":
		return true
	case "poller":
		return v.Phase != "quiet"
	}
	return slices.ContainsFunc(v.Capsules, func(c Capsule) bool { return c.QuietBy == s.Path })
}

func (v *View) ready(h *Health) {
	h.Ready = append(h.Ready, h.Started...)
	if since := v.Outage.Since(); !since.IsZero() && v.Now.Sub(since) >= awayTime {
		lasted := words.Few(v.Now.Sub(since))
		if r, refused := v.Outage.Refusal(); refused {
			h.Ready.add("redis_refuses", "Redis has refused calls for %s: %s (%s)", lasted, r.Text, r.Code)
		} else {
			h.Ready.add("redis_away", "Redis has been away for %s", lasted)
		}
	}
	v.outboxesReady(&h.Ready)
	switch {
	case h.Phase == "running" && v.allQuiet():
		h.Ready.add("quiet", "all capsules are quiet")
	case h.Phase != "starting" && h.Phase != "running":
		h.Ready.add(h.Phase, "the phase of the daemon is %s", h.Phase)
	}
	for i := range v.Capsules {
		if c := &v.Capsules[i]; !c.FencedSince.IsZero() {
			h.Ready.add("fenced", "%s has been fenced for %s", c.fetcher(), words.Few(v.Now.Sub(c.FencedSince)))
		}
	}
}
