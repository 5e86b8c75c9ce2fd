package event

import "time"

// JobEvent is what every event about a job carries.
type JobEvent struct {
	At      time.Time
	Actor   string // path of the processor
	Capsule string
	Job     JobRef
}

// The life of a job.
type (
	// JobStarted says: the handler (with its middleware) is about to run.
	JobStarted struct{ JobEvent }
	// JobDone says: it returned nil. The ack is on its way, and with it what the job has pushed by client.Within or has
	// behind it in a chain, Pushed in number; if that is any, both are in Redis.
	JobDone struct {
		JobEvent
		Elapsed time.Duration
		Pushed  int
		Left    []string // jids of unique jobs that it would have pushed, had others not held their locks
	}
	// JobFailed says: it returned an error, panicked or called Goexit. One of
	// JobRetried, JobDied or JobDropped follows once the outcome is in Redis.
	JobFailed struct {
		JobEvent
		Elapsed time.Duration
		Err     error
		Crashed bool // panic or Goexit
	}
	// JobLate says: it ended after its outcome was decided elsewhere (requeued at the
	// deadline, or fenced); the result is refused.
	JobLate struct {
		JobEvent
		Elapsed time.Duration
		Err     error
	}
	// JobRetried says: it is in the retry set, due at Due.
	JobRetried struct {
		JobEvent
		Due time.Time
	}
	// JobDied says: it is in the dead set.
	JobDied struct{ JobEvent }
	// JobDropped says: it failed for good and is stored nowhere (discarded, or never to be retried).
	JobDropped struct{ JobEvent }
	// JobInterrupted says: an iterable job has saved its cursor and is at the back of
	// its queue, to go on in another run. It follows no JobFailed.
	JobInterrupted struct {
		JobEvent
		Elapsed time.Duration
	}
	// JobExpired says: it was not run, since it was late at Expired, and is stored nowhere (troupe.Options.DropExpired, or
	// its own field). It has not failed.
	JobExpired struct {
		JobEvent
		Expired time.Time // when the last run could have started
	}
	// JobHeld says: it was not run, since a limit (troupe.Limit) has no room for it, and is held in Redis until there is. It has
	// not failed. The event is made only for subscribers.
	JobHeld struct {
		JobEvent
		Rule string // NAME or NAME:KEY of the limit; "" if that is not known
	}
	// JobCalledOff says: it was not run, since its batch was cancelled, and is stored nowhere. It has not failed. The event is made
	// only for subscribers.
	JobCalledOff struct {
		JobEvent
		Batch string // ID of the batch
	}
	// BreakerOpened says: with the end of this job the breaker of a limit has opened, or stays open (Again): no job of the rule is
	// let in before Until. It is lost if the reply of Redis is; the state itself is in Redis.
	BreakerOpened struct {
		JobEvent
		Rule  string // NAME or NAME:KEY of the limit
		Until time.Time
		Again bool // it was open: its probe has failed, or troupe.Rest was called
	}
	// BreakerClosed says: this job was the probe of a limit and is done, and the others are let in.
	BreakerClosed struct {
		JobEvent
		Rule string
	}
	// JobUnresponsive says: its context was cancelled, and it does not end.
	JobUnresponsive struct {
		JobEvent
		Unresponsive Unresponsive
	}
	// JobCancelled says: an operator asked for its end, and its context has ended with
	// troupe.ErrCancelled. Its handler decides what becomes of it. One that had been fetched and
	// had not begun is Deleted instead, and Actor is the capsule's manager.
	JobCancelled struct {
		JobEvent
		Deleted bool // it never ran, and is stored nowhere
	}
	// JobParked says: it asked to be put off (troupe.Park) and is in the schedule
	// set, due at Until. It has not failed; Err is what it returned.
	JobParked struct {
		JobEvent
		Until time.Time
		Err   error
	}
	// JobMoved says: it asked for another queue (troupe.MoveTo) and is in that. It has not failed.
	JobMoved struct {
		JobEvent
		To string // bare name of the queue
	}
	// JobHandedOver says: its class has no handler here, or it is not in the share that is run
	// (troupe.Options.Take), and it is in another queue. It has not failed. Without a subscriber the
	// event is made of the first job of a class only.
	JobHandedOver struct {
		JobEvent
		To    string // bare name of the queue
		Share bool   // it has a handler, but is not in the share
		First bool   // the first of its class in this capsule
	}
	// JobLeft says: its class has no handler here, and it is back at the end of its queue. It has not
	// failed. Without a subscriber the event is made of the first job of a class only.
	JobLeft struct {
		JobEvent
		First bool
	}
)
