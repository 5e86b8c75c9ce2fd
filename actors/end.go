package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/words"
)

// The waits at the end of a stop, counted from the end of the grace. A wait that
// is over early leaves its time to the next.
const (
	// treeTime bounds the end of the actors.
	treeTime = time.Second
	// machineryTime bounds that of their goroutines.
	machineryTime = 1500 * time.Millisecond
	// leaveTime is until when the last calls to Redis may take.
	leaveTime = 2 * time.Second
	// closeTime is until when they are waited for, in case they do not heed that, and
	// death handlers that have begun after the last job has ended.
	closeTime = 2250 * time.Millisecond
	// endTime bounds all of it. What is left is for callbacks and subscribers.
	endTime = 3 * time.Second
)

// end takes the tree down and says goodbye to Redis. By now every job is
// settled, requeued or given up.
func (d *Daemon) end() {
	began := time.Now()
	then := began.Add(endTime)
	d.advance(phaseEnded)
	d.endSettle()
	d.env.Outage.Close()
	for _, c := range d.capsules {
		c.settler.Close()
	}
	d.stopTree()
	ctx, cancel := context.WithTimeout(context.Background(), d.patience(time.Until(began.Add(machineryTime))))
	d.env.System.Goroutines.Await(ctx, d.env.System.Goroutines.Idle)
	cancel()
	d.leave(began)
	ctx, cancel = context.WithDeadline(context.Background(), began.Add(closeTime))
	d.deaths.Close(ctx)
	cancel()
	d.hooks.fire("exit", reversed(d.cfg.On.Exit))
	subscribers := d.events.close() // they go on while the callbacks run
	d.hooks.wait(time.Until(then))
	d.mu.Lock()
	elapsed, cause := time.Since(d.stoppedAt), d.fatal
	d.mu.Unlock()
	d.drain.add(func(r *DrainReport) { r.Elapsed, r.Cause = elapsed, cause })
	supervised.Tell(func() { d.env.Log.Info().Object("drain", d.Report()).Msg("stopped") })
	closing, cancel := context.WithDeadline(context.Background(), then)
	defer cancel()
	if err := within(closing, d.disconnect); err != nil {
		supervised.Tell(func() {
			logs.Err(d.env.Log.Error(), err).Msg("the connections to Redis could not be closed; going on without it")
		})
	}
	for _, s := range subscribers {
		s.await(then)
	}
	close(d.ended)
}

// leave deregisters the fetchers and takes this process off the list, side by
// side: a fetcher may be a third party's, and never return. began is when the
// end began.
func (d *Daemon) leave(began time.Time) {
	left := d.patience(time.Until(began.Add(leaveTime)))
	calls, cancelCalls := context.WithTimeout(context.Background(), left)
	defer cancelCalls()
	patience, cancel := context.WithTimeout(context.Background(), left+closeTime-leaveTime)
	defer cancel()
	done := supervised.NewTracker()
	for _, c := range d.capsules {
		c.account()
		done.Add(1)
		go func() {
			defer done.Done()
			if err := within(patience, func() { c.leave(calls) }); err != nil {
				supervised.Tell(func() {
					logs.Err(d.env.Log.Error().Str("actor", c.path("fetcher")), err).Bytes("stack", stackOf(err)).
						Msg("the fetcher failed while leaving; going on without it")
				})
			}
		}()
	}
	if err := within(patience, func() { d.lastBeat(calls) }); err != nil {
		supervised.Tell(func() { logs.Err(d.env.Log.Error(), err).Msg("the process could not leave; going on without it") })
	}
	done.Await(context.Background(), done.Idle) // bounded by patience
}

// account reports what the capsule could not settle.
func (c *capsule) account() {
	c.ledger.SealAndTake() // nothing, after a hard stop
	unsettled := c.ledger.All()
	if len(unsettled) == 0 {
		return
	}
	durable := false
	if err := supervised.Isolate(func() { durable = c.fetcher.Durable() }); err != nil {
		supervised.Tell(func() {
			logs.Err(c.env.Log.Error().Str("actor", c.path("fetcher")), err).Bytes("stack", stackOf(err)).
				Msg("the fetcher does not tell whether it is durable; taken for one that is not")
		})
	}
	if durable {
		c.drain.add(func(r *DrainReport) { r.Left = append(r.Left, refsOf(unsettled)...) })
		return
	}
	c.drain.add(func(r *DrainReport) { r.Lost = append(r.Lost, refsOf(unsettled)...) })
	for _, w := range unsettled {
		supervised.Tell(func() {
			c.env.Log.Error().Str("jid", words.Text(w.Job.Ref().JID)).Str("queue", words.Text(w.Unit.Queue)).Bytes("payload", w.Unit.Payload).
				Msg("lost: Redis did not take the job back and this fetcher keeps nothing in progress")
		})
	}
}

// leave deregisters the fetcher.
func (c *capsule) leave(ctx context.Context) {
	if _, err := c.fetcher.Close(ctx); err != nil {
		c.env.Log.Warn().Str("actor", c.path("fetcher")).Err(err).Msg("could not deregister; the lease will run out")
	}
}

var errNotBack = errors.New("it did not return in time")

// within is isolate for what may never return: errNotBack is the error then, at
// the end of ctx.
func within(ctx context.Context, f func()) error {
	done := make(chan error, 1)
	go func() { done <- supervised.Isolate(f) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errNotBack
	}
}

// stopTree stops the launcher and waits for it, bounded: a strategy of the
// user's may block.
func (d *Daemon) stopTree() {
	ended := make(chan struct{})
	launcher := d.env.System.PID(launcherName)
	// not the library's Future, in which an answer races with the time-out
	watcher := d.env.System.Root().Spawn(actor.PropsFromFunc(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Watch(launcher) // first: a stopping actor answers a Watch as if it had ended
			ctx.Stop(launcher)
		case *actor.Terminated:
			close(ended)
		}
	}))
	t := time.NewTimer(treeTime)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		supervised.Tell(func() {
			d.env.Log.Error().Str("tree", d.Tree().String()).Msg("the actors did not stop in time; going on without them")
		})
	}
	d.env.System.Root().Stop(watcher)
}
