// Package wire describes systems other than Sidekiq whose jobs a capsule can run. The
// packages below it are such systems: a capsule gets one as actors.Capsule.Wire.
package wire

import (
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/retry"
)

// Wire is how a system keeps its jobs in Redis, as far as that differs from Sidekiq. A
// zero field is Sidekiq's way. Its functions are called from any goroutine. Capsules with
// the same *Wire share a poller and a rescuer.
type Wire struct {
	Name string // of the system, in logs and errors

	// Key is the system's name of a key of Sidekiq or troupe, such as "queue:mail",
	// "retry" or "troupe:places". Different keys must stay different.
	Key func(key string) string

	// Parse makes of the bytes of a job, fetched from queue, what middleware and handlers
	// get. An error sends the bytes to the dead set.
	Parse func(payload []byte, queue string) (*troupe.Payload, error)

	// Alias is another name of a job: if there is no handler of its class, that of this name runs
	// it. "" means that it has none.
	Alias func(p *troupe.Payload) string

	// Rules say what becomes of a job that has failed.
	Rules *retry.Rules

	// Check is asked before a job is run. With an error it is not run: it has failed for good.
	Check func(p *troupe.Payload, now time.Time) error

	// Timeout is how long a run of the job may take; 0 means its class's Timeout.
	Timeout func(p *troupe.Payload) time.Duration

	// Promote makes a due member of the schedule or retry set ready for its queue, which is
	// the field "queue" of the result. It may edit p. An error sends the member to the dead set.
	Promote func(p *troupe.Payload, now time.Time) (*troupe.Payload, error)

	// Beat are further fields of this process in Sidekiq's set of processes, needed if the system
	// reads that set as well, that is, if Key keeps the key "processes". The time of the beat is
	// then in whole seconds.
	Beat map[string]string

	// Fetch makes the fetcher of a system that does not keep its jobs as Sidekiq does. Such a
	// system has no Key, no Promote and no statistics in Redis, and neither poller nor rescuer: what
	// is due and what dead processes have left is its fetcher's business. Each fetch counts as
	// an attempt, so nothing is fetched before a processor is free.
	Fetch fetch.Factory

	// FailedApart: jobs that failed are not counted in stat:processed.
	FailedApart bool
}
