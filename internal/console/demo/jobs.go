package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
)

// Queues of the demo. No other program uses these names.
const (
	queueCritical = "demo-critical" // capsule "default", three times as often as
	queueDefault  = "demo"          // capsule "default"
	queueBatch    = "demo-batch"    // capsule "batch"
)

var queues = []string{queueCritical, queueDefault, queueBatch}

// Retries are asked for soon, for a demo is short; the daemon adds its usual
// jitter of up to 9 s at the first and 19 s at the second retry.
const retryWait = troupe.Delay(200 * time.Millisecond)

// quick is most of the load.
type quick struct {
	Millis int `arg:"0"`
}

// slow takes up to a second.
type slow struct {
	Millis int `arg:"0"`
}

// scheduled is pushed for a later time, and measures how late it starts.
type scheduled struct {
	Due int64 `arg:"0"` // microseconds since the epoch
}

// flaky fails a number of times and then succeeds.
type flaky struct {
	Failures int `arg:"0"`
}

// panics crashes at each run, its one retry included, and ends in the dead set.
type panics struct{}

// long takes so long that a stop does not wait for it, but obeys its context: it
// is requeued.
type long struct {
	Run    string `arg:"0"` // of the demo that pushed it
	Millis int    `arg:"1"`
}

// unresponsive never looks at its context and never ends: it is requeued and abandoned.
type unresponsive struct {
	Run string `arg:"0"`
}

func (quick) Class() string        { return "Demo::Quick" }
func (slow) Class() string         { return "Demo::Slow" }
func (scheduled) Class() string    { return "Demo::Scheduled" }
func (flaky) Class() string        { return "Demo::Flaky" }
func (panics) Class() string       { return "Demo::Panics" }
func (long) Class() string         { return "Demo::Long" }
func (unresponsive) Class() string { return "Demo::Unresponsive" }

// players are the handlers.
type players struct {
	measures *measures

	// run names this demo. Long and unresponsive jobs that an earlier demo has left in the
	// same Redis end at once, or they would pile up and hold all processors.
	run string

	curtain chan struct{} // closed when all is over: lets the unresponsive job go
}

func (p *players) registry() *troupe.Registry {
	var r troupe.Registry
	again := func(int, error, *troupe.Payload) troupe.Delay { return retryWait }
	troupe.Handle(&r, func(ctx context.Context, j *troupe.Job[quick]) error { return pause(ctx, j.Args.Millis) })
	troupe.Handle(&r, func(ctx context.Context, j *troupe.Job[slow]) error { return pause(ctx, j.Args.Millis) })
	troupe.Handle(&r, p.scheduled)
	troupe.Handle(&r, p.flaky, troupe.Options{RetryIn: again})
	troupe.Handle(&r, p.panics, troupe.Options{RetryIn: again})
	troupe.Handle(&r, p.long)
	troupe.Handle(&r, p.unresponsive)
	return &r
}

func (p *players) scheduled(_ context.Context, j *troupe.Job[scheduled]) error {
	if due := time.UnixMicro(j.Args.Due); due.After(p.measures.began) {
		now := time.Now()
		p.measures.late.add(now, now.Sub(due))
	}
	return nil
}

func (p *players) flaky(_ context.Context, j *troupe.Job[flaky]) error {
	if j.Attempt <= j.Args.Failures {
		return fmt.Errorf("scripted failure %d of %d", j.Attempt, j.Args.Failures)
	}
	return nil
}

func (p *players) panics(context.Context, *troupe.Job[panics]) error {
	panic(errors.New("scripted panic"))
}

func (p *players) long(ctx context.Context, j *troupe.Job[long]) error {
	if j.Args.Run != p.run {
		return nil
	}
	return pause(ctx, j.Args.Millis)
}

func (p *players) unresponsive(_ context.Context, j *troupe.Job[unresponsive]) error {
	if j.Args.Run == p.run {
		p.measures.unresponsive.Store(true)
		<-p.curtain
	}
	return nil
}

// pause is the work of a job.
func pause(ctx context.Context, millis int) error {
	t := time.NewTimer(time.Duration(millis) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
