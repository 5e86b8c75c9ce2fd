package run

import (
	"cmp"
	"encoding/json"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// This file is about what a job tells of itself, and what is kept of its end.

// maxEndMessage is how many bytes of the message of an error are kept with the end of a job.
const maxEndMessage = 4 << 10

var errNoJID = errors.New("the job has no jid, expected one to keep it under")

// report is made when something is told.
func (c *jobContext) report() *job.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.told.Load()
	if r == nil {
		r = new(job.Report)
		c.told.Store(r)
		if c.r.over.Load() {
			r.Close()
		}
	}
	return r
}

// SetResult is what troupe.SetResult calls.
func (c *jobContext) SetResult(text json.RawMessage) error {
	if c.r.jid == "" {
		return errNoJID
	}
	if err := c.r.env.Reaches(c.r.w.Unit.Queue, keys.Result(c.r.jid)); err != nil {
		return err
	}
	return c.report().SetResult(text)
}

// keepsEnd is for how long the end of the job is kept; 0 if it is not.
func (r *Run) keepsEnd() time.Duration {
	if r.jid == "" || r.payload == nil {
		return 0
	}
	var options *troupe.Options
	if r.handler != nil {
		options = &r.handler.options
	}
	if r.own == nil && (options == nil || options.ResultFor == 0) {
		return 0
	}
	return job.ResultFor(r.payload, options)
}

// doneAs is how a job has ended that is done.
func (r *Run) doneAs() string {
	if r.iteration != nil && !r.iteration.last.Cancelled.IsZero() {
		return job.Cancelled.String()
	}
	return job.Done.String()
}

// end is what is kept of a job that ends in this way, "" for one that goes on; nil for nothing.
func (r *Run) end(outcome string) *fetch.KeptEnd {
	told := r.job.told.Load()
	if outcome == "" {
		return nil
	}
	ttl, text := r.keepsEnd(), told.Result()
	if r.err != nil {
		text = nil
	}
	if ttl == 0 && text == nil {
		return nil
	}
	key := keys.Result(r.jid)
	if r.env.Reaches(r.w.Unit.Queue, key) != nil {
		return nil
	}
	at := r.ended
	if at.IsZero() { // it never began
		at = time.Now()
	}
	e := job.Ended{Outcome: outcome, At: float64(at.UnixMicro()) / 1e6, Result: text}
	if r.err != nil {
		e.ErrorClass, e.ErrorMessage = troupe.ErrorClass(r.err), words.Short(r.err.Error(), maxEndMessage)
	}
	return &fetch.KeptEnd{Key: key, Value: e.Text(), TTL: cmp.Or(ttl, job.ResultTTL)}
}

// unkept tells of a result that Redis did not take. The job is settled.
func (r *Run) unkept(e *fetch.Effects) {
	if e == nil || e.Unkept == "" {
		return
	}
	r.env.Unkept.Add(1)
	r.line(zerolog.WarnLevel, "unkept").Str("reason", words.Text(e.Unkept)).Msg("the result of a job was not kept")
}

// SetProgress is what troupe.SetProgress calls.
func (c *jobContext) SetProgress(done, total int64, text string) {
	if c.r.jid != "" {
		c.progressed(c.report().SetProgress(done, total, text, false))
	}
}

// counted notes how many items of an iterable job are done.
func (c *jobContext) counted(done, total int64) {
	c.progressed(c.report().SetProgress(done, total, "", true))
}

func (c *jobContext) progressed(more int64, first bool) {
	if h := c.r.handler; h != nil && more > 0 {
		h.progress.Add(uint64(more))
	}
	if first {
		c.r.env.OnProgress()
	}
}

// Progress is what the run has told of its progress, and whether that has changed since the last look; ok is false if it has told
// nothing, has ended, or is not the job's any more. One goroutine at a time may call it.
func (r *Run) Progress(now time.Time) (jid string, p job.Progress, changed, ok bool) {
	if !r.began.Load() || r.over.Load() || !r.env.Ledger.IsOpen(r.w) {
		return "", p, false, false
	}
	p, changed, ok = r.job.told.Load().Progress(now)
	return r.jid, p, changed, ok
}
