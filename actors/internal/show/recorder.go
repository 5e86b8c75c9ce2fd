package show

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/tree"
	"github.com/troupehq/troupe/internal/words"
)

// Recorder keeps the exceptional events of a process until a beat publishes them. A process
// that only goes quiet and stops publishes none. The zero value drops none but the oldest beyond
// flight.Most. All methods are safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	ring     func()          // asks for a beat soon; nil before OnUrgent
	records  []flight.Record // once there are flight.Most, the oldest is at next and is written over
	next     int
	worth    bool // another event than quiet and stop was noted: those are published with it, or not at all
	asked    bool // for a beat
	wrote    time.Time
	restarts []time.Time // of actors, within the last minute
	crash    string      // the last one of an actor: path and error
}

// OnUrgent has ring called, at most once a second, when an event was noted that is to be published at once.
func (r *Recorder) OnUrgent(ring func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring = ring
}

// Note records an event, if it is exceptional. Jobs that are done are not.
func (r *Recorder) Note(ev event.Event) {
	var one [1]flight.Record
	records := one[:0]
	urgent := recordsOf(ev, func(record flight.Record) { records = append(records, record) })
	if len(records) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range records {
		r.worth = r.worth || record.Kind != flight.Quiet && record.Kind != flight.Stop
		r.addLocked(record)
	}
	switch e := ev.(type) {
	case event.ActorRestarted:
		r.restarts = append(r.restarts[max(0, len(r.restarts)-flight.Most+1):], e.At)
	case event.ActorCrashed:
		r.crash = short(e.Path) + ": " + recordText(e.Err)
	}
	if urgent && !r.asked && r.ring != nil {
		r.asked = true
		time.AfterFunc(time.Until(r.wrote.Add(time.Second)), r.ring) // at most one a second
	}
}

// addLocked keeps one more record.
func (r *Recorder) addLocked(record flight.Record) {
	if len(r.records) < flight.Most {
		r.records = append(r.records, record)
		return
	}
	r.records[r.next] = record
	r.next = (r.next + 1) % flight.Most
}

// inOrderLocked are the records, the oldest first.
func (r *Recorder) inOrderLocked() []flight.Record {
	return slices.Concat(r.records[r.next:], r.records[:r.next])
}

// Write publishes what was noted; after an error it is kept for the next time.
func (r *Recorder) Write(ctx context.Context, rdb redis.UniversalClient, identity string) error {
	r.mu.Lock()
	if !r.worth {
		r.asked = false
		r.mu.Unlock()
		return nil
	}
	records := r.inOrderLocked()
	r.records, r.next, r.asked, r.wrote = r.records[:0], 0, false, time.Now()
	r.mu.Unlock()
	err := flight.Write(ctx, rdb, identity, records)
	if redis.HasErrorPrefix(err, "NOPERM") { // told at the start
		return nil
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		later := r.inOrderLocked()
		r.records, r.next = r.records[:0], 0
		for _, record := range slices.Concat(records, later) {
			r.addLocked(record)
		}
	}
	return err
}

// recent counts the restarts within the minute before now, and tells the last crash.
func (r *Recorder) recent(now time.Time) (restarts int, crash string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restarts = slices.DeleteFunc(r.restarts, func(at time.Time) bool { return now.Sub(at) > time.Minute })
	return len(r.restarts), r.crash
}

// maxText is how many bytes of an error a record has.
const maxText = 300

func recordText(err error) string {
	if err == nil {
		return ""
	}
	return words.FirstLine(err.Error(), maxText)
}

// recordsOf adds the records of an event, and tells whether they are to be published at once.
func recordsOf(ev event.Event, add func(flight.Record)) (urgent bool) {
	one := func(kind string, at time.Time, text string) {
		add(flight.Record{At: at, Kind: kind, Text: text})
	}
	of := func(o job.Outcome, e event.JobEvent, text string) {
		r := recordOf(o, e.At, e.Job, text)
		r.Actor, r.Capsule = e.Actor, e.Capsule
		add(r)
	}
	jobs := func(o job.Outcome, at time.Time, refs []tree.JobRef, capsule, text string) {
		for _, ref := range refs[:min(len(refs), flight.Most)] {
			r := recordOf(o, at, ref, text)
			r.Capsule = capsule
			add(r)
		}
	}
	actor := func(kind string, e event.ActorEvent, text string) {
		add(flight.Record{At: e.At, Kind: kind, Actor: e.Path, Text: text})
	}
	switch e := ev.(type) {
	case event.JobFailed:
		of(job.Failed, e.JobEvent, recordText(e.Err))
	case event.JobRetried:
		of(job.Retried, e.JobEvent, "next attempt at "+e.Due.UTC().Format(time.RFC3339))
	case event.JobDied:
		of(job.Died, e.JobEvent, "")
	case event.JobDropped:
		of(job.Dropped, e.JobEvent, "")
	case event.JobParked:
		of(job.Parked, e.JobEvent, strings.TrimSuffix("until "+e.Until.UTC().Format(time.RFC3339)+": "+recordText(e.Err), ": "))
	case event.JobMoved:
		of(job.Moved, e.JobEvent, "to the queue "+words.Text(e.To))
	case event.JobHandedOver:
		if text := "jobs without a handler here go to the queue "; e.First {
			if e.Share {
				text = "jobs that are not in the share of this process go to the queue "
			}
			of(job.HandedOver, e.JobEvent, text+words.Text(e.To))
		}
	case event.JobLeft:
		if e.First {
			of(job.Left, e.JobEvent, "jobs without a handler here go back to the end of the queue")
		}
	case event.JobExpired:
		of(job.Expired, e.JobEvent, "at "+e.Expired.UTC().Format(time.RFC3339))
	case event.JobLate:
		of(job.TooLate, e.JobEvent, recordText(e.Err))
	case event.JobCancelled:
		text := ""
		if e.Deleted {
			text = "it had not begun, and is deleted"
		}
		of(job.Cancelled, e.JobEvent, text)
		return true
	case event.JobUnresponsive:
		of(job.Unresponsive, e.JobEvent, e.Unresponsive.Cause)
		return true
	case event.JobsRequeued:
		jobs(job.Requeued, e.At, e.Jobs, e.Capsule, "at the deadline of the stop")
	case event.JobsAbandoned:
		jobs(job.Unresponsive, e.At, e.Jobs, "", "given up at the end of the stop")
	case event.JobRerouted:
		o := job.Rerouted
		if e.Suspect {
			o = job.Suspected
		}
		jobs(o, e.At, []tree.JobRef{e.Job}, "", fmt.Sprintf("to %s: its process has died under it %d times", e.To, len(e.Recoveries)))
		return true
	case event.JobPoisoned:
		jobs(job.Poisoned, e.At, []tree.JobRef{e.Job}, "", recordText(e.Err))
		return true
	case event.Fenced:
		at := flight.Record{At: e.At, Kind: flight.Fenced, Capsule: e.Capsule, Text: fmt.Sprintf("%d jobs cancelled, %d results refused", len(e.Jobs), e.Refused)}
		add(at)
		jobs(job.Cancelled, e.At, e.Jobs, e.Capsule, "fenced: another process has the job")
		return true
	case event.JobsRescued:
		one(flight.Rescued, e.At, words.Short(fmt.Sprintf("%d jobs of dead processes put back: %s", e.Jobs, strings.Join(e.Processes, ", ")), maxText))
		return true
	case event.ActorCrashed:
		actor(flight.Crashed, e.ActorEvent, recordText(e.Err))
		return true
	case event.ActorRestarted:
		actor(flight.Restarted, e.ActorEvent, fmt.Sprintf("restart %d", e.Restarts))
		return true
	case event.ActorEscalated:
		actor(flight.Escalated, e.ActorEvent, recordText(e.Err))
		return true
	case event.StrategyOverruled:
		actor(flight.Overruled, e.ActorEvent, recordText(e.Err))
	case event.CapsuleQuiet:
		add(flight.Record{At: e.At, Kind: flight.CapsuleQuiet, Capsule: e.Capsule, Text: recordText(e.Err)})
		return true
	case event.CapsuleConfigured:
		add(flight.Record{At: e.At, Kind: flight.Configured, Capsule: e.Capsule, Text: fmt.Sprintf("%d processors, queues %s", e.Concurrency, strings.Join(e.Queues, ", "))})
		return true
	case event.OutboxChanged:
		add(flight.Record{At: e.At, Kind: flight.Outbox, Actor: "launcher/outbox-" + e.Outbox, Text: strings.TrimSuffix(e.State+": "+recordText(e.Err), ": ")})
		return true
	case event.QuietBegan:
		one(flight.Quiet, e.At, "")
	case event.StopBegan:
		one(flight.Stop, e.At, "running jobs have until "+e.Deadline.UTC().Format(time.RFC3339))
	}
	return false
}

func recordOf(o job.Outcome, at time.Time, j tree.JobRef, text string) flight.Record {
	return flight.Record{At: at, Kind: o.Kind(), JID: words.Text(j.JID), Class: words.Text(j.Class), Queue: words.Text(j.Queue), Text: text}
}
