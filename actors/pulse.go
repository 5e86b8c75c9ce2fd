package actors

import (
	"maps"
	"strings"
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

const (
	pulseCapsules = 10 // that a pulse tells one by one; the last is all others
	pulseQueues   = 16 // that a pulse counts; with more it counts none
	pulseText     = 120
)

// pulse sums up the tree for views of a whole fleet.
func (d *Daemon) pulse(t Tree, now time.Time) beat.Pulse {
	p := beat.Pulse{
		At: float64(now.UnixMilli()) / 1e3, Version: Version, Tag: words.Text(d.cfg.Tag), Phase: d.phaseName(),
		Actors: map[string]string{}, Fencings: d.Stats().Fencings,
	}
	log := d.log.State()
	p.Log, p.Dropped = logTrouble(log), log.Dropped
	p.Recent, p.Failure = d.events.recorder.recent(now)
	p.Failure = words.FirstLine(p.Failure, pulseText)
	taken := map[string]uint64{}
	for _, c := range d.capsules {
		found, _, _ := c.traffic.Read()
		for _, q := range found {
			taken[q.Name] += q.Fetched
		}
	}
	if len(taken) <= pulseQueues {
		p.Taken = taken
	}
	p.Elsewhere = d.elsewhere()
	at := map[string]*beat.PulseCapsule{}
	for _, c := range d.capsules[:min(len(d.capsules), pulseCapsules)] {
		p.Capsules = append(p.Capsules, beat.PulseCapsule{Name: words.Text(c.cfg.Name)})
	}
	for i, c := range d.capsules {
		at[c.cfg.Name] = &p.Capsules[min(i, pulseCapsules-1)]
	}
	for _, n := range t {
		p.Restarts += n.Restarts
		p.Unresponsive += len(n.Unresponsive)
		if n.Job != nil && !n.Job.Started.IsZero() {
			if began := float64(n.Job.Started.UnixMilli()) / 1e3; p.Oldest == 0 || began < p.Oldest {
				p.Oldest = began
			}
		}
		if n.Role != "processor" {
			if n.State != StateRunning && n.State != StateStarting { // if it stays so, /livez says it after a minute
				p.Actors[strings.TrimPrefix(n.Path, launcherName+"/")] = string(n.State)
			}
			continue
		}
		count(at[n.Capsule], n.State)
	}
	return p
}

// elsewhere are the queues that are at no key of Sidekiq, each with the system that keeps it.
func (d *Daemon) elsewhere() map[string]string {
	all, ours := map[string]string{}, map[string]bool{}
	for _, c := range d.capsules {
		for _, name := range c.config().Queues.List().Names() {
			if key := keys.Queue(name); c.system.wire.Fetch == nil && c.system.key(key) == key {
				ours[name] = true
			} else {
				all[name] = c.system.wire.Name
			}
		}
	}
	maps.DeleteFunc(all, func(name, _ string) bool { return ours[name] })
	return all
}

// count counts a processor by its state.
func count(c *beat.PulseCapsule, s State) {
	switch s {
	case StateBusy:
		c.Busy++
	case StateRunning, StateIdle, StateStarting:
		c.Idle++
	case StateHeld, StateSuspended:
		c.Held++
	case StateStopping, StateStopped:
		c.Stopped++
	case StateCrashed, StateRestarting:
		c.Down++
	}
}

// phaseName is what the daemon does, in a word.
func (d *Daemon) phaseName() string {
	switch {
	case d.phase() >= phaseStopping:
		return "stopping"
	case d.quieting.Load() || d.allQuiet():
		return "quiet"
	}
	return "running"
}
