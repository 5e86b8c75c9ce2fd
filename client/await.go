package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/words"
)

// KeepResult keeps the end of the job for d, so that Await returns it: the result, that there is none, or
// why the job is not done. It overrides the ResultFor of the class. Without either, only results are
// kept. Ruby does not look at it, and on a Redis Cluster nothing is kept.
func KeepResult(d time.Duration) Option {
	return func(o *options) {
		if d < time.Millisecond {
			o.fail(&FieldError{job.ResultField, d.String(), "a time of 1ms or more"})
			return
		}
		o.json(job.ResultField, d.Seconds())
	}
}

// NotDoneError is what Await returns for a job that has ended without being done.
type NotDoneError struct {
	JID string

	// Outcome is "dead" (it is in the dead set), "dropped" (it failed, and is stored nowhere), "expired" (it was late, and is
	// stored nowhere), "deleted" (by an operator, or by client middleware when it was due), or "cancelled" (an iterable job, by an operator).
	Outcome string
	At      time.Time // when it ended

	Class   string // of its error, as the field error_class has it; "" without one
	Message string // of its error, at most 4 KiB
}

func (e *NotDoneError) Error() string {
	text := fmt.Sprintf("job %s is not done, it is %s", words.Text(e.JID), e.Outcome)
	if e.Class != "" {
		text += ": " + e.Class + ": " + e.Message
	}
	return text
}

// Await waits until the job with this jid has ended, and returns its result: the JSON of what its handler gave to
// troupe.SetResult, or null without one. If the job has ended and is not done, the error is a *NotDoneError. While the job has
// another run before it, since it failed or was requeued, parked, moved, rescued or held, Await waits. For a dead job that is
// retried later it returns the death until the job has ended again.
//
// It learns of the end of a job if the end is kept: by the class (troupe.Options.ResultFor) or by the push (KeepResult), or because
// the job has set a result. It does not learn of any other end, of an end that is kept no longer, and of a job that Ruby runs or deletes.
// So ctx should have a deadline; when ctx ends, the error wraps its cause. While Redis is away, Await waits for Redis to come back.
//
// Any number of goroutines and processes may wait for one job, before and after its end. All calls of a client share one
// connection, which subscribes to the jobs that they wait for; nothing is polled. The connection is closed soon after the last call, or
// by Close. A handler that waits holds its processor: if all processors wait for jobs of their own queue, these jobs never run.
//
// On a Redis Cluster, and with a client of Within, the error is a *FieldError.
func (c *Client) Await(ctx context.Context, jid string) (json.RawMessage, error) {
	result, err := c.await(ctx, jid)
	if err != nil {
		return nil, fmt.Errorf("await: %w", err)
	}
	return result, nil
}

func (c *Client) await(ctx context.Context, jid string) (json.RawMessage, error) {
	switch err := c.Err(); {
	case err != nil:
		return nil, err
	case jid == "":
		return nil, &FieldError{"jid", `""`, "that of a job"}
	case c.kept != nil:
		return nil, &FieldError{"client.Within", "a wait for a job, which enters Redis only when this one is done", "client.FromContext"}
	case redisconn.OnCluster(c.rdb):
		return nil, &FieldError{"redis", "a Redis Cluster, where results are not kept", "one server, or a place of your own for results"}
	}
	w := c.waiters.join(jid)
	defer c.waiters.leave(jid)
	select {
	case <-w.done:
	case <-ctx.Done():
		return nil, fmt.Errorf("job %s: nothing is known of its end: %w", words.Text(jid), context.Cause(ctx))
	}
	if w.err != nil {
		return nil, w.err
	}
	end, err := job.ParseEnded(w.text)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", words.Text(jid), err)
	}
	if end.Outcome != job.Done.String() {
		return nil, &NotDoneError{JID: jid, Outcome: end.Outcome, At: end.Time(), Class: end.ErrorClass, Message: end.ErrorMessage}
	}
	if end.Result == nil {
		end.Result = json.RawMessage("null")
	}
	return end.Result, nil
}

// Await is Client.Await with the result as an R, by encoding/json: the zero R for null, and for a result that does not fit an
// error that says so.
func Await[R any](ctx context.Context, c *Client, jid string) (result R, err error) {
	text, err := c.Await(ctx, jid)
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(text, &result); err != nil {
		var zero R
		return zero, fmt.Errorf("await: job %s: the result %s does not fit %T: %w", words.Text(jid), words.Short(string(text), 60), zero, err)
	}
	return result, nil
}
