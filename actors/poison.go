package actors

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/poison"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/words"
)

// Poison says what is done about jobs that take their process down. The zero
// value is the default of every field.
type Poison struct {
	// Recoveries within Within after which a job is dead, if it was in progress
	// as a suspect the last time; -1 means never: nothing is counted.
	Recoveries int
	// Within is how long a recovery counts.
	Within time.Duration
	// Suspect is the number of recoveries from which on a job is a suspect: a
	// process runs one of them at a time. 0 means one less than Recoveries, at
	// least 1; -1 sets nobody apart: all are dead that reach Recoveries.
	Suspect int
}

func (p Poison) withDefaults() Poison {
	p.Recoveries, p.Within, p.Suspect = limits.Poison(p.Recoveries, p.Within, p.Suspect)
	return p
}

// poisonPolicy decides where what dead processes had in progress goes.
func (d *Daemon) poisonPolicy(r retry.Policy) *poison.Policy {
	p := &poison.Policy{
		Limits: poison.Limits(d.cfg.Poison), Retry: r, Registry: d.cfg.Registry, Log: d.env.Log, Actor: rescuerPart,
	}
	if d.cfg.Recovery != nil {
		p.Callback = poison.NewCallback(d.cfg.Recovery)
	}
	return p
}

func (d *Daemon) newDeaths() *poison.Deaths {
	var tell func(*troupe.Payload, error)
	if len(d.cfg.DeathHandlers) > 0 {
		tell = d.tellDeathHandlers
	}
	return poison.NewDeaths(tell, func(counter *supervised.Tracker, f func()) {
		d.env.System.SpawnAs(counter, launcherName, f)
	}, d.env.Changes.Wake, d.env.Log, rescuerPart)
}

// freeRerouted frees the locks of the unique jobs that are dead after a round. A lock that it does not come to is an orphan.
func (d *Daemon) freeRerouted(ctx context.Context, got rescue.Round) {
	for _, from := range got.Details {
		for _, j := range from.Rerouted {
			p, err := troupe.ParsePayload(j.Orphan.Payload)
			if j.Decision.To != job.ToDead || err != nil {
				continue
			}
			if lock := job.LockOf(p, redisconn.OnCluster(d.env.Redis)); lock != nil && lock.Until != troupe.UntilPeriod {
				_, _ = job.FreeLock(ctx, d.env.Redis, lock.Key, lock.JID)
			}
		}
	}
}

// tellRecovered logs and publishes what became of the jobs of a round that did not
// go back to their queues.
func (d *Daemon) tellRecovered(got rescue.Round) {
	var dead []poison.Death
	defer func() { d.deaths.Add(dead) }() // whatever a hook of the user's logger does
	var all []recovered
	for _, from := range got.Details {
		for _, j := range from.Rerouted {
			r := recoveredJob(j)
			all = append(all, r)
			switch {
			case j.Decision.To == job.ToDead:
				d.poisoned.Add(1)
				if r.isJob { // else no job has died
					dead = append(dead, poison.Death{Payload: j.Decision.Payload, Err: j.Decision.Why})
				}
			case j.Decision.Suspect:
				d.suspected.Add(1)
			}
			d.events.publish(r.event())
		}
	}
	for _, r := range all {
		r.log(&d.env.Log)
	}
}

// recovered is a recovered job that did not simply go back.
type recovered struct {
	rescue.Rerouted
	isJob bool
	ref   JobRef
	to    string // name of a queue, or schedule
}

func recoveredJob(j rescue.Rerouted) recovered {
	r := recovered{Rerouted: j, ref: JobRef{Queue: j.Orphan.Queue}, to: j.Decision.Queue}
	if p, err := troupe.ParsePayload(j.Orphan.Payload); err == nil {
		r.isJob, r.ref.JID, r.ref.Class = true, p.JID(), p.DisplayClass()
	}
	if j.Decision.To == job.ToSchedule {
		r.to = "schedule"
	}
	return r
}

func (r *recovered) event() event.Event {
	now := time.Now()
	if r.Decision.To == job.ToDead {
		return event.JobPoisoned{At: now, Job: r.ref, Recoveries: r.Orphan.Recoveries, Err: r.Decision.Why}
	}
	return event.JobRerouted{At: now, Job: r.ref, Recoveries: r.Orphan.Recoveries, To: r.to, Suspect: r.Decision.Suspect}
}

func (r *recovered) log(log *zerolog.Logger) {
	line := log.Warn().Str("actor", rescuerPart).Str("jid", words.Text(r.ref.JID)).Str("class", words.Text(r.ref.Class)).
		Str("queue", words.Text(r.ref.Queue)).Str("from", r.Orphan.From).Int("recoveries", len(r.Orphan.Recoveries))
	switch {
	case r.Decision.To == job.ToDead:
		logs.Err(line.Str("error_class", troupe.ErrorClass(r.Decision.Why)), r.Decision.Why).Msg("a recovered job was moved to the dead set")
	case r.Decision.Suspect:
		line.Msg("a job is suspected of killing its process: it runs apart from other suspects")
	default:
		line.Str("to", words.Text(r.to)).Msg("a recovered job was sent elsewhere")
	}
}
