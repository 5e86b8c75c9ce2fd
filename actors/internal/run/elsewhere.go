package run

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/retry"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// This file is about jobs that are not to be run here: their class has no handler, they are not in
// the share of it, or they are late and to be dropped.

// LeavePause is how long a processor pauses after a job that it has left in its queue, so that jobs
// which nobody runs are not taken and put back all the time.
const LeavePause = time.Second

// maxForeign is how many classes are told of.
const maxForeign = 1000

// foreign are the classes whose jobs were told of: they are not run here. The zero value has none.
type foreign struct {
	mu      sync.Mutex
	classes map[string]bool
}

// first tells whether the class is a new one, and whether it is the last that is told of.
func (f *foreign) first(class string) (first, last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.classes[class] || len(f.classes) >= maxForeign {
		return false, false
	}
	if f.classes == nil {
		f.classes = map[string]bool{}
	}
	f.classes[class] = true
	return true, len(f.classes) == maxForeign
}

// elsewhere tells whether the job is not to be run here: then its outcome is set.
func (r *Run) elsewhere() bool {
	to := ""
	switch h := r.handler; {
	case h != nil && (h.elsewhere == "" || h.options.Take.Has(r.jid)):
		return false
	case h != nil:
		to = h.elsewhere
	case !r.named():
		return false
	case r.env.Leave:
		r.sent = job.Left
		return true
	default:
		to = r.env.Unknown
	}
	if to == "" {
		return false
	}
	if err := r.env.Policy.Moves(r.w.Unit.Queue, to); err != nil { // what the start has refused, for a queue that was added since
		if r.err = err; r.handler == nil {
			r.err = fmt.Errorf("%w: %w", &troupe.UnknownClassError{Class: r.name}, err)
		}
		return true
	}
	r.sent, r.err = job.HandedOver, troupe.MoveTo(to)
	return true
}

// send sees the job on its way, to another queue or to the end of its own. It has not failed: no
// handler of failures hears of it.
func (r *Run) send() {
	if r.sent == job.Left {
		r.w.Again.Store(true)
		r.slot.Pause(LeavePause)
		r.submit(fetch.Move{Unit: r.w.Unit, To: fetch.ToBack}, func() { r.sentTo("") })
		return
	}
	dec := r.env.Policy.Decide(r.ended, 0, retry.Failure{Raw: r.w.Unit.Payload, FetchedFrom: r.w.Unit.Queue, Err: r.err})
	r.submit(r.move(dec), func() { r.sentTo(dec.Queue) })
}

// expire drops the job, which is late. It has not failed: no handler of failures hears of it.
func (r *Run) expire() {
	tell := func() {
		late, _ := errchain.As[*troupe.ExpiredError](r.err)
		level, text := job.Expired.Line()
		r.line(zerolog.Level(level), job.Expired.Logged()).Time("expired", late.At.UTC()).Msg(text)
		r.publish(event.JobExpired{JobEvent: r.now(), Expired: late.At})
	}
	if effects := r.effects(nil, job.BatchDone, job.Expired.String(), r.ended); effects != nil {
		r.submit(fetch.Move{Unit: r.w.Unit, To: fetch.ToNone, Effects: effects}, func() {
			r.unkept(effects)
			tell()
		})
		return
	}
	r.acked, r.handed = true, true // by done
	tell()
}

// sentTo tells that the job is in the queue to, "" for its own.
func (r *Run) sentTo(to string) {
	first, last := r.env.foreign.first(r.class)
	if first {
		r.warn(to, last)
	}
	level, text := r.sent.Line()
	if line := r.line(zerolog.Level(level), r.sent.Logged()); line.Enabled() {
		if to != "" {
			line = line.Str("to", words.Text(to))
		}
		line.Msg(text)
	}
	if r.sent == job.Left {
		r.publish(event.JobLeft{JobEvent: r.now(), First: first})
		return
	}
	r.publish(event.JobHandedOver{JobEvent: r.now(), To: to, Share: r.handler != nil, First: first})
}

// warn tells once of a class what becomes of its jobs.
func (r *Run) warn(to string, last bool) {
	line := r.env.Log.Warn().Str("class", words.Text(r.class)).Str("queue", words.Text(r.w.Unit.Queue)).Str("capsule", r.env.Capsule)
	if last {
		line = line.Bool("last", true)
	}
	if to != "" {
		line = line.Str("to", words.Text(to))
	}
	switch {
	case r.handler != nil:
		percent, _ := r.handler.options.Take.Percent()
		line.Float64("percent", percent).Msg("a share of the jobs of this class is run here; the others are handed over")
	case to != "":
		line.Msg("no handler for this class: its jobs are handed over")
	default:
		line.Msg("no handler for this class: its jobs are left at the end of their queue")
	}
}
