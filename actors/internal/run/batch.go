package run

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// This file is about jobs of a batch: each move that ends such a job, or its first run, counts it there.

// batched reads the place of the job in its batch.
func (r *Run) batched() {
	if in, ok := job.BatchOf(r.payload); ok && r.env.Reaches(r.w.Unit.Queue, keys.Batch(in.ID)) == nil {
		_, mid := r.payload.Get("t_next")
		r.own.batch, r.own.mid = &in, mid
	}
	r.own.callbackOf, _ = job.CallbackOf(r.payload)
}

// countable tells why the job is not run: where it runs it cannot be counted in its batch.
func (r *Run) countable() error {
	in, ok := job.BatchOf(r.payload)
	if !ok || r.own.batch != nil {
		return nil
	}
	return troupe.Kill(fmt.Errorf("a job of batch %s cannot be counted there: %w", in.ID, r.env.Reaches(r.w.Unit.Queue, keys.Batch(in.ID))))
}

// farOff is from when on a batch is told that one of its jobs waits: it lives for a month beyond what it knows of.
const farOff = 12 * time.Hour

// counts is what is counted of the job in its batch: nil for nothing. A chain counts at its last job, or when one dies.
func (r *Run) counts(end job.BatchEvent, due time.Time) *job.Count {
	if r.own == nil || r.own.batch == nil {
		return nil
	}
	far := due.Sub(r.ended) > farOff
	switch {
	case end == job.BatchRan && r.own.mid:
		end = job.BatchWait
	case end == job.BatchDone && len(r.own.behind) > 0: // the next one is pushed in this step
		return nil
	}
	if end == job.BatchWait && !far {
		return nil
	}
	c := &job.Count{InBatch: *r.own.batch, Event: end}
	if far {
		c.Due = float64(due.UnixMicro()) / 1e6
	}
	return c
}

// calledOff tells whether the batch of the job was cancelled: then it is dropped.
func (r *Run) calledOff() bool {
	if r.own == nil || r.own.batch == nil || !r.env.Cancelled(r.own.batch.ID) {
		return false
	}
	r.sent = job.CalledOff
	return true
}

// callOff drops the job, whose batch was cancelled. It has not failed.
func (r *Run) callOff() {
	r.submit(fetch.Move{Unit: r.w.Unit, To: fetch.ToNone, Effects: r.effects(nil, job.BatchDone, job.EndedDeleted, r.ended)}, func() {
		level, text := job.CalledOff.Line()
		if line := r.line(zerolog.Level(level), job.CalledOff.Logged()); line.Enabled() {
			line.Str("batch", r.own.batch.ID).Msg(text)
		}
		r.publish(event.JobCalledOff{JobEvent: r.now(), Batch: r.own.batch.ID})
	})
}
