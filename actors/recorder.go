package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/cut"
	"github.com/troupehq/troupe/internal/flight"
)

// recorder keeps the exceptional events of this process until a beat publishes them. The
// zero value drops none but the oldest beyond flight.Most.
type recorder struct {
	ring func() // asks for a beat soon

	mu       sync.Mutex
	records  []flight.Record
	asked    bool // for a beat
	wrote    time.Time
	restarts []time.Time // of actors, within the last minute
	crash    string      // the last one of an actor: path and error
}

// note records an event, if it is exceptional. Jobs that are done are not.
func (r *recorder) note(ev Event) {
	records, urgent := recordsOf(ev)
	if len(records) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, records...)
	r.records = r.records[max(0, len(r.records)-flight.Most):]
	switch e := ev.(type) {
	case ActorRestarted:
		r.restarts = append(r.restarts[max(0, len(r.restarts)-flight.Most+1):], e.At)
	case ActorCrashed:
		r.crash = strings.TrimPrefix(e.Path, launcherName+"/") + ": " + recordText(e.Err)
	}
	if urgent && !r.asked && r.ring != nil {
		r.asked = true
		time.AfterFunc(time.Until(r.wrote.Add(time.Second)), r.ring) // at most one a second
	}
}

// write publishes what was noted; after an error it is kept for the next time.
func (r *recorder) write(ctx context.Context, rdb redis.UniversalClient, identity string) error {
	r.mu.Lock()
	records := r.records
	r.records, r.asked, r.wrote = nil, false, time.Now()
	r.mu.Unlock()
	err := flight.Write(ctx, rdb, identity, records)
	if redis.HasErrorPrefix(err, "NOPERM") { // told at the start
		return nil
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.records = append(records, r.records...)
		r.records = r.records[max(0, len(r.records)-flight.Most):]
	}
	return err
}

// recent counts the restarts within the minute before now, and tells the last crash.
func (r *recorder) recent(now time.Time) (restarts int, crash string) {
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
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.Clone(cutText(text))
}

func cutText(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// recordsOf are the records of an event, and whether they are to be published at once.
func recordsOf(ev Event) (records []flight.Record, urgent bool) {
	one := func(kind string, at time.Time, text string) []flight.Record {
		return []flight.Record{{At: at, Kind: kind, Text: text}}
	}
	job := func(kind string, e JobEvent, text string) []flight.Record {
		r := recordOf(kind, e.At, e.Job, text)
		r.Actor, r.Capsule = e.Actor, e.Capsule
		return []flight.Record{r}
	}
	jobs := func(kind string, at time.Time, refs []JobRef, capsule, text string) (records []flight.Record) {
		for _, ref := range refs[:min(len(refs), flight.Most)] {
			r := recordOf(kind, at, ref, text)
			r.Capsule = capsule
			records = append(records, r)
		}
		return records
	}
	actor := func(kind string, e ActorEvent, text string) []flight.Record {
		return []flight.Record{{At: e.At, Kind: kind, Actor: e.Path, Text: text}}
	}
	switch e := ev.(type) {
	case JobFailed:
		return job(flight.JobFailed, e.JobEvent, recordText(e.Err)), false
	case JobRetried:
		return job(flight.JobRetried, e.JobEvent, "next attempt at "+e.Due.UTC().Format(time.RFC3339)), false
	case JobDied:
		return job(flight.JobDied, e.JobEvent, ""), false
	case JobDropped:
		return job(flight.JobDropped, e.JobEvent, ""), false
	case JobParked:
		return job(flight.JobParked, e.JobEvent, strings.TrimSuffix("until "+e.Until.UTC().Format(time.RFC3339)+": "+recordText(e.Err), ": ")), false
	case JobLate:
		return job(flight.JobLate, e.JobEvent, recordText(e.Err)), false
	case JobCancelled:
		return job(flight.JobCancelled, e.JobEvent, ""), true
	case JobUnresponsive:
		return job(flight.JobUnresponsive, e.JobEvent, e.Unresponsive.Cause), true
	case JobsRequeued:
		return jobs(flight.JobRequeued, e.At, e.Jobs, e.Capsule, "at the deadline of the stop"), false
	case JobsAbandoned:
		return jobs(flight.JobUnresponsive, e.At, e.Jobs, "", "given up at the end of the stop"), false
	case JobRerouted:
		kind := flight.JobRerouted
		if e.Suspect {
			kind = flight.JobSuspected
		}
		return jobs(kind, e.At, []JobRef{e.Job}, "", fmt.Sprintf("to %s: its process has died under it %d times", e.To, len(e.Recoveries))), true
	case JobPoisoned:
		return jobs(flight.JobPoisoned, e.At, []JobRef{e.Job}, "", recordText(e.Err)), true
	case Fenced:
		at := flight.Record{At: e.At, Kind: flight.Fenced, Capsule: e.Capsule, Text: fmt.Sprintf("%d jobs cancelled, %d results refused", len(e.Jobs), e.Refused)}
		return slices.Insert(jobs(flight.JobCancelled, e.At, e.Jobs, e.Capsule, "fenced: another process has the job"), 0, at), true
	case JobsRescued:
		return one(flight.Rescued, e.At, cutText(fmt.Sprintf("%d jobs of dead processes put back: %s", e.Jobs, strings.Join(e.Processes, ", ")))), true
	case ActorCrashed:
		return actor(flight.Crashed, e.ActorEvent, recordText(e.Err)), true
	case ActorRestarted:
		return actor(flight.Restarted, e.ActorEvent, fmt.Sprintf("restart %d", e.Restarts)), true
	case ActorEscalated:
		return actor(flight.Escalated, e.ActorEvent, recordText(e.Err)), true
	case StrategyOverruled:
		return actor(flight.Overruled, e.ActorEvent, recordText(e.Err)), false
	case CapsuleQuiet:
		return []flight.Record{{At: e.At, Kind: flight.CapsuleQuiet, Capsule: e.Capsule, Text: recordText(e.Err)}}, true
	case CapsuleConfigured:
		return []flight.Record{{At: e.At, Kind: flight.Configured, Capsule: e.Capsule, Text: e.text()}}, true
	case QuietBegan:
		return one(flight.Quiet, e.At, ""), false
	case StopBegan:
		return one(flight.Stop, e.At, "running jobs have until "+e.Deadline.UTC().Format(time.RFC3339)), false
	}
	return nil, false
}

func recordOf(kind string, at time.Time, j JobRef, text string) flight.Record {
	return flight.Record{At: at, Kind: kind, JID: cut.Text(j.JID), Class: cut.Text(j.Class), Queue: cut.Text(j.Queue), Text: text}
}
