package troupe

import (
	"fmt"
	"time"
)

// Recovery says where a job goes whose process died while it was in progress.
// The zero value puts it back into its queue, to run next, bytes unchanged. At
// most one field is set.
type Recovery struct {
	// Queue is another queue, of a process with more memory for example.
	Queue string
	// Delay puts it into the schedule set, due after that.
	Delay time.Duration
	// Dead puts it into the dead set: it must not begin twice.
	Dead bool
}

// RecoveredError is why a job is dead that has not failed: its process died
// under it. Death handlers get it.
type RecoveredError struct {
	Times   int           // recoveries within Within, the last one included
	Within  time.Duration // the window of the limit
	Process string        // identity of the process that died last
	Cause   string        // what is known of its end
	Poison  bool          // too many times; else its class is not to be run again
}

func (e *RecoveredError) Error() string {
	if e.Poison {
		return fmt.Sprintf("in progress at the death of %d processes within %v, at last of %s (%s)",
			e.Times, e.Within, e.Process, e.Cause)
	}
	return fmt.Sprintf("its process died under it: %s (%s)", e.Process, e.Cause)
}

// ErrorClass returns "Troupe::PoisonPill" or "Troupe::Recovered".
func (e *RecoveredError) ErrorClass() string {
	if e.Poison {
		return "Troupe::PoisonPill"
	}
	return "Troupe::Recovered"
}
