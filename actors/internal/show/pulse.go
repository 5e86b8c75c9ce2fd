package show

import (
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
)

const (
	pulseCapsules = 10 // that a pulse tells one by one; the last is all others
	pulseQueues   = 16 // that a pulse counts; with more it counts none
	pulseText     = 120
	pulseOutboxes = 5 // that a pulse tells
)

// Pulse sums up the tree t, and what r has recorded, for views of a whole fleet.
func (v *View) Pulse(t tree.Tree, r *Recorder) beat.Pulse {
	p := beat.Pulse{
		At: float64(v.Now.UnixMilli()) / 1e3, Phase: v.pulsePhase(), Actors: map[string]string{}, Fencings: v.Fencings,
		Log: logTrouble(v.Log), Dropped: v.Log.Dropped,
	}
	p.Recent, p.Failure = r.recent(v.Now)
	p.Failure = words.FirstLine(p.Failure, pulseText)
	taken, at := map[string]uint64{}, map[string]*beat.PulseCapsule{}
	p.Capsules = make([]beat.PulseCapsule, min(len(v.Capsules), pulseCapsules))
	for i := range v.Capsules {
		c := &v.Capsules[i]
		for _, q := range c.Queues {
			taken[q.Name] += q.Fetched
		}
		at[c.Name] = &p.Capsules[min(i, pulseCapsules-1)]
		if i < pulseCapsules {
			at[c.Name].Name = words.Text(c.Name)
		}
	}
	p.Outboxes = v.pulseOutboxes()
	if len(taken) <= pulseQueues {
		p.Taken = taken
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
			if n.State != tree.StateRunning && n.State != tree.StateStarting { // if it stays so, /livez says it after a minute
				p.Actors[short(n.Path)] = string(n.State)
			}
			continue
		}
		count(at[n.Capsule], n.State)
	}
	return p
}

// count counts a processor by its state.
func count(c *beat.PulseCapsule, s tree.State) {
	switch s {
	case tree.StateBusy:
		c.Busy++
	case tree.StateRunning, tree.StateIdle, tree.StateStarting:
		c.Idle++
	case tree.StateHeld, tree.StateSuspended:
		c.Held++
	case tree.StateStopping, tree.StateStopped:
		c.Stopped++
	case tree.StateCrashed, tree.StateRestarting:
		c.Down++
	}
}

// pulsePhase is what the daemon does: running, quiet or stopping.
func (v *View) pulsePhase() string {
	switch v.Phase {
	case "stopping", "ended":
		return "stopping"
	case "quiet":
		return "quiet"
	}
	if v.allQuiet() {
		return "quiet"
	}
	return "running"
}

// logTrouble is what a pulse says of the log: blocked, refused, or nothing.
func logTrouble(s logs.State) string {
	switch {
	case s.Blocked > 0:
		return "blocked"
	case s.Refused:
		return "refused"
	}
	return ""
}
