package event

import "time"

// The life of periodic jobs.
type (
	// PeriodicTicked says: this process, as the leader, has dealt with a tick of a periodic job.
	PeriodicTicked struct {
		At   time.Time
		Name string    // of the periodic job
		Tick time.Time // when it was due
		// What is "pushed"; or why no job was pushed: "missed" (it is too late, see
		// troupe.Missed), "disabled", "repeated" (the clock shows the hour again, see
		// troupe.Periodic.Once) "stopped" (by client middleware) or "overlapped" (the job
		// of an earlier tick waits or runs, see troupe.Periodic.Overlap).
		What   string
		Late   time.Duration // after the tick
		Missed int           // ticks before this one for which no job is pushed, either
		Job    JobRef        // what was pushed
	}
	// PeriodicStuck says: something keeps a periodic job from its ticks here. It is said once for
	// each reason.
	PeriodicStuck struct {
		At   time.Time
		Name string
		Err  error
	}
)

func (PeriodicTicked) event() {}
func (PeriodicStuck) event()  {}
