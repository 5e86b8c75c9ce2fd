package run

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/env"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/logs"
	"github.com/troupehq/troupe/internal/redisconn"
)

// iteration keeps the state of an iterable job in Redis during one run. The
// state is written only while the job is ours: in its run, and between the end
// of the run and the move that makes it anybody's. It is deleted when the ack is
// in Redis, and not before: a crash in between would send the job back to its
// first item.
type iteration struct {
	r     *Run
	jid   string
	first time.Time // of the first item, for Config.MaxIterationRuntime

	stay *work.Move // with what was pushed before the cursor; nil if none is on its way

	mu       sync.Mutex // a middleware may have left the handler in another goroutine
	closed   bool       // the run has ended, with what stands here
	begun    bool       // there is something to save
	last     troupe.Iteration
	finished bool
}

var errAway = errors.New("redis is away")

// iterable returns ctx with a keeper. Jobs without a jid have no key to keep
// their state under.
func (r *Run) iterable(ctx context.Context, jid string) context.Context {
	if jid == "" {
		return ctx
	}
	r.iteration = &iteration{r: r, jid: jid}
	return context.WithValue(ctx, jobctx.Keeper{}, r.iteration)
}

// Load waits for Redis as long as the job's context allows: without its state
// the job must not begin.
func (k *iteration) Load(ctx context.Context) (troupe.Iteration, error) {
	for try := 0; ; try++ {
		call, cancel := env.Within(ctx)
		it, err := job.LoadIteration(call, k.r.env.Redis, k.jid)
		cancel()
		if err == nil || refused(err) {
			return it, err
		}
		if !k.r.env.Pause(ctx, "load "+k.jid, try) {
			return it, context.Cause(ctx)
		}
	}
}

// Save makes one try, and none while Redis is known to be away. A job whose outcome
// was decided elsewhere is about to be told so: it waits for that.
func (k *iteration) Save(ctx context.Context, it troupe.Iteration) (time.Time, error) {
	switch {
	case !k.r.env.Ledger.IsOpen(k.r.w):
		<-ctx.Done()
		return time.Time{}, context.Cause(ctx)
	case k.r.env.Outage.Away():
		return time.Time{}, errAway
	}
	call, cancel := env.Within(ctx)
	defer cancel()
	if !k.pushes() {
		return job.SaveIteration(call, k.r.env.Redis, k.jid, it)
	}
	if err := k.push(ctx, it); err != nil {
		return time.Time{}, err
	}
	saved, err := job.LoadIteration(call, k.r.env.Redis, k.jid)
	return saved.Cancelled, err
}

func (k *iteration) Moved(it troupe.Iteration) bool {
	k.r.job.counted(it.Done, it.Total)
	kept := k.r.job.kept.Load()
	return kept != nil && kept.Moved()
}

func (k *iteration) Drop() {
	if kept := k.r.job.kept.Load(); kept != nil {
		kept.Drop()
	}
}

var errNotOurs = errors.New("the job is not ours any more")

// pushes tells whether the run has pushed with its cursor. From then on nothing else writes the cursor: one that a run
// writes which is not ours any more would leave out what the items before it have pushed, or have some push again.
func (k *iteration) pushes() bool {
	kept := k.r.job.kept.Load()
	return kept != nil && kept.Used()
}

// push writes the cursor to Redis together with the pushes that were made before it, within ctx. The settler
// repeats what Redis refuses; until it is in Redis nothing else is pushed.
func (k *iteration) push(ctx context.Context, it troupe.Iteration) error {
	if k.stay != nil { // with a cursor before this one
		if err := k.stored(ctx); err != nil {
			return err
		}
	}
	k.send(k.r.job.kept.Load().Before(), it)
	return k.stored(ctx)
}

// stored waits for the stay that is on its way.
func (k *iteration) stored(ctx context.Context) error {
	select {
	case <-k.stay.Done:
	case <-k.stay.Refused:
		select {
		case <-k.stay.Done:
		default:
			return errAway
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return k.stayed()
}

// send hands pushes to the settler, with the cursor.
func (k *iteration) send(pushes []job.Push, it troupe.Iteration) {
	k.stay = work.NewMove(k.r.w, fetch.Move{To: fetch.ToStay, Stay: &fetch.Stay{}, Effects: &fetch.Effects{
		Push: pushes, Hash: &fetch.Hash{Key: keys.Iteration(k.jid), Fields: job.IterationFields(it), TTL: job.IterationTTL},
	}})
	k.r.env.Settler.Submit(k.stay)
}

// stayed is what became of the stay, which is over.
func (k *iteration) stayed() error {
	done := k.stay.Err == nil && k.stay.Stay.Done
	k.stay = nil
	if !done {
		return errNotOurs
	}
	return nil
}

// Interrupted counts the time from the first item on, so that each run gets at
// least one done, however long it takes to find.
func (k *iteration) Interrupted() bool {
	if k.r.env.Quiet() {
		return true
	}
	most := k.r.env.MaxIteration
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
func (r *Run) keepPlace() {
	if r.iteration == nil {
		return
	}
	last, begun, finished := r.iteration.close()
	if stay := r.iteration.stay; stay != nil { // what a Save has begun: with the job gone it would find nothing to go with
		r.awaitDone(stay)
	}
	switch {
	case !begun:
	case r.err == nil && finished:
		if k := r.iteration; k.stay != nil { // refused by Redis until now: it comes before the ack
			r.awaitDone(k.stay)
		}
		r.w.Iterated = r.iteration.jid // deleted after the ack
	case r.err != nil:
		r.savePlace(last)
	}
}

// pushPlace writes the cursor with which the run of an iterable job has ended, together with its pushes: all of them if
// the run was interrupted, else those before the cursor. It writes nothing if the job is no longer this run's.
func (r *Run) pushPlace(it troupe.Iteration) {
	k, pushes := r.iteration, r.job.kept.Load().End(job.IsInterrupted(r.err))
	if k.stay != nil && k.stayed() != nil {
		return
	}
	k.send(pushes, it)
	r.awaitDone(k.stay)
}

// savePlace writes the cursor before the job may run again: it waits for Redis
// as the settlement that follows would.
func (r *Run) savePlace(it troupe.Iteration) {
	if r.iteration.pushes() {
		r.pushPlace(it)
		return
	}
	for try := 0; ; try++ {
		call, cancel := r.env.Call()
		_, err := job.SaveIteration(call, r.env.Redis, r.iteration.jid, it)
		cancel()
		if err == nil {
			return
		}
		if refused(err) {
			supervised.Tell(func() { // the job is not settled yet
				logs.Err(r.line(zerolog.ErrorLevel, "unsaved"), err).Msg("the cursor of an iterable job could not be saved")
			})
			return
		}
		if !r.env.Pause(r.env.Settling, "save "+r.iteration.jid, try) {
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
// a fresh enqueued_at and otherwise the bytes that were fetched. In another system these alone.
func (r *Run) toBack() {
	m := fetch.Move{Unit: r.w.Unit, To: fetch.ToBack, Effects: r.effects(nil, job.BatchWait, "", r.ended)}
	if r.wire.Parse == nil {
		p := r.fetched()
		p.SetTime("enqueued_at", time.Now(), r.env.Timestamps)
		m.Payload = p.Bytes()
	}
	r.w.Again.Store(true)
	if !r.await(m) {
		return
	}
	r.line(zerolog.InfoLevel, "interrupted").Msg("job interrupted")
	r.publish(event.JobInterrupted{JobEvent: r.now(), Elapsed: r.elapsed})
}

// Acked deletes the states of iterable jobs that are done, now that their acks are in
// Redis. What fails expires by itself.
func (v *Env) Acked(items []*work.Item) {
	var jids []string
	for _, w := range items {
		if w.Iterated != "" {
			jids = append(jids, w.Iterated)
		}
	}
	if jids == nil {
		return
	}
	v.System.Spawn(v.Path, func() {
		ctx, cancel := v.Call()
		defer cancel()
		if err := job.DeleteIterations(ctx, v.Redis, jids...); err != nil {
			v.Log.Debug().Str("actor", v.Path).Err(err).Msg("the state of a finished iterable job stays until it expires")
		}
	})
}
