package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// Progress is how far a job that runs has come, as its handler tells by troupe.Job.SetProgress, or as an iterable job counts its
// items. It is up to a second old.
type Progress struct {
	Done, Total int64     // Total is 0 if it is not known
	Text        string    // what the handler says of it, at most troupe.MaxProgressText bytes and "…"
	At          time.Time // when it has changed last, to about a second
	Rate        float64   // done a second in the last two minutes; 0 if it is not known yet, or nothing was done
}

// Left is how long the rest takes at that rate; ok is false if that is not known.
func (p *Progress) Left() (left time.Duration, ok bool) {
	s := float64(max(0, p.Total-p.Done)) / p.Rate
	if p.Total == 0 || !(s < math.MaxInt64/1e9) {
		return 0, false
	}
	return time.Duration(s * 1e9), true
}

func progressOf(text string) *Progress {
	p, err := job.ParseProgress(text)
	if err != nil {
		return nil
	}
	return &Progress{p.Done, p.Total, p.Text, time.UnixMilli(int64(p.At * 1e3)).UTC(), p.Rate}
}

// Progress returns how far a job has come, ErrNotFound if none that runs has told it. It asks each process of the fleet; Works has it
// of all jobs that run.
func (i *Inspector) Progress(ctx context.Context, jid string) (*Progress, error) {
	ids, err := i.members(ctx, keys.Processes)
	if err != nil {
		return nil, fmt.Errorf("read the progress of a job: %w", err)
	}
	texts := make([]*redis.StringCmd, len(ids))
	pipe := i.db().Pipeline()
	for n, id := range ids {
		texts[n] = pipe.HGet(ctx, keys.Progress(id), jid)
	}
	if len(ids) > 0 {
		_, err = pipe.Exec(ctx)
	}
	var last *Progress
	for _, text := range texts {
		if p := progressOf(text.Val()); p != nil && (last == nil || p.At.After(last.At)) {
			last = p
		}
	}
	switch {
	case last != nil:
		return last, nil
	case err != nil && !absent(err):
		return nil, fmt.Errorf("read the progress of a job: %w", err)
	}
	return nil, fmt.Errorf("read the progress of the job %s: %w", jid, ErrNotFound)
}

// Result is how a job has ended.
type Result struct {
	Outcome string          // done, or that of a client.NotDoneError
	At      time.Time       // when it ended
	Value   json.RawMessage // what its handler gave to troupe.SetResult: null for nothing, nil for a job that is not done

	ErrorClass   string // of its error; "" without one
	ErrorMessage string
}

// Result returns how a job has ended, if that is kept, as client.Await does without waiting; ErrNotFound if nothing is kept.
func (i *Inspector) Result(ctx context.Context, jid string) (*Result, error) {
	text, err := i.db().Get(ctx, keys.Result(jid)).Bytes()
	var e job.Ended
	if err == nil {
		e, err = job.ParseEnded(text)
	}
	switch {
	case errors.Is(err, redis.Nil):
		return nil, fmt.Errorf("read the result of the job %s: %w", jid, ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read the result of the job %s: %w", jid, err)
	}
	return &Result{Outcome: e.Outcome, At: e.Time(), Value: e.Result, ErrorClass: e.ErrorClass, ErrorMessage: e.ErrorMessage}, nil
}
