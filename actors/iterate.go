package actors

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/iterstate"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/joblog"
	"github.com/troupehq/troupe/internal/redisconn"
)

// iteration keeps the state of an iterable job in Redis during one run. The
// state is written only while the job is ours: in its run, and between the end
// of the run and the move that makes it anybody's. It is deleted when the ack is
// in Redis, and not before: a crash in between would send the job back to its
// first item.
type iteration struct {
	e     *execution
	jid   string
	first time.Time // of the first item, for Config.MaxIterationRuntime

	mu       sync.Mutex // a middleware may have left the handler in another goroutine
	closed   bool       // the run has ended, with what stands here
	begun    bool       // there is something to save
	last     troupe.Iteration
	finished bool
}

var errAway = errors.New("redis is away")

// iterable returns ctx with a keeper. Jobs without a jid have no key to keep
// their state under.
func (e *execution) iterable(ctx context.Context, jid string) context.Context {
	if jid == "" {
		return ctx
	}
	e.iteration = &iteration{e: e, jid: jid}
	return context.WithValue(ctx, jobctx.Keeper{}, e.iteration)
}

// Load waits for Redis as long as the job's context allows: without its state
// the job must not begin.
func (k *iteration) Load(ctx context.Context) (troupe.Iteration, error) {
	for try := 0; ; try++ {
		call, cancel := env.Within(ctx)
		it, err := iterstate.Load(call, k.e.c.env.Redis, k.jid)
		cancel()
		if err == nil || refused(err) {
			return it, err
		}
		if !k.e.c.env.Pause(ctx, "load "+k.jid, try) {
			return it, context.Cause(ctx)
		}
	}
}

// Save makes one try, and none while Redis is known to be away. A job whose outcome
// was decided elsewhere is about to be told so: it waits for that.
func (k *iteration) Save(ctx context.Context, it troupe.Iteration) (time.Time, error) {
	d := k.e.c.d
	switch {
	case !k.e.c.ledger.isOpen(k.e.w):
		<-ctx.Done()
		return time.Time{}, context.Cause(ctx)
	case d.env.Outage.Away():
		return time.Time{}, errAway
	}
	call, cancel := env.Within(ctx)
	defer cancel()
	return iterstate.Save(call, d.env.Redis, k.jid, it)
}

// Interrupted counts the time from the first item on, so that each run gets at
// least one done, however long it takes to find.
func (k *iteration) Interrupted() bool {
	d := k.e.c.d
	if d.quieting.Load() {
		return true
	}
	most := d.cfg.MaxIterationRuntime
	if most == 0 {
		return false
	}
	if k.first.IsZero() {
		k.first = time.Now()
	}
	return time.Since(k.first) > most
}

func (k *iteration) End(it troupe.Iteration, finished bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.begun, k.last, k.finished = true, it, finished
	}
}

// close returns what the run has left.
func (k *iteration) close() (last troupe.Iteration, begun, finished bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	return k.last, k.begun, k.finished
}

// keepPlace sees to the state of an iterable job whose run has ended. The unit is
// taken from the ledger: its outcome is ours to store.
func (e *execution) keepPlace() {
	if e.iteration == nil {
		return
	}
	last, begun, finished := e.iteration.close()
	switch {
	case !begun:
	case e.err == nil && finished:
		e.w.iterated = e.iteration.jid // deleted after the ack
	case e.err != nil:
		e.savePlace(last)
	}
}

// savePlace writes the cursor before the job may run again: it waits for Redis
// as the settlement that follows would.
func (e *execution) savePlace(it troupe.Iteration) {
	d := e.c.d
	for try := 0; ; try++ {
		call, cancel := d.env.Call()
		_, err := iterstate.Save(call, d.env.Redis, e.iteration.jid, it)
		cancel()
		if err == nil {
			return
		}
		if refused(err) {
			joblog.Err(e.line(zerolog.ErrorLevel, "unsaved"), err).Msg("the cursor of an iterable job could not be saved")
			return
		}
		if !d.env.Pause(d.env.Settling, "save "+e.iteration.jid, try) {
			return // the job stays in its private place, the settler is closed
		}
	}
}

// refused tells an error that will not go away by waiting for Redis.
func refused(err error) bool {
	f := redisconn.Classify(err)
	return f == redisconn.Command || f == redisconn.Local
}

// toBack pushes an interrupted job anew, as Sidekiq does: behind what waits, with
// a fresh enqueued_at and otherwise the bytes that were fetched.
func (e *execution) toBack() {
	c := e.c
	p := e.fetched()
	p.SetTime("enqueued_at", time.Now(), c.d.cfg.Timestamps)
	e.w.goesOn()
	if !e.await(fetch.Move{Unit: e.w.unit, To: fetch.ToBack, Payload: p.Bytes()}) {
		return
	}
	e.line(zerolog.InfoLevel, "interrupted").Msg("job interrupted")
	if c.d.events.wanted.Load() {
		c.d.events.publish(JobInterrupted{e.event(), e.elapsed})
	}
}

// dropIterations deletes the states of iterable jobs that are done, now that
// their acks are in Redis. What fails expires by itself.
func (c *capsule) dropIterations(acked []*work) {
	var jids []string
	for _, w := range acked {
		if w.iterated != "" {
			jids = append(jids, w.iterated)
		}
	}
	if jids == nil {
		return
	}
	c.env.System.Spawn(c.path(""), func() {
		ctx, cancel := c.env.Call()
		defer cancel()
		if err := iterstate.Delete(ctx, c.env.Redis, jids...); err != nil {
			c.env.Log.Debug().Str("actor", c.path("fetcher")).Err(err).Msg("the state of a finished iterable job stays until it expires")
		}
	})
}

// isInterrupted tells whether a run has ended to go on later. The errors of the
// chain are user code; one that panics says no.
func isInterrupted(err error) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return errors.Is(err, troupe.ErrInterrupted)
}
