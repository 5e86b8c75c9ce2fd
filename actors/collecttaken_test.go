package actors_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// around has a middleware that sleeps, of virtual time, before or behind the handler.
func around(before, behind func(p *troupe.Payload, err error) time.Duration) troupe.Options {
	sleep := func(d func(p *troupe.Payload, err error) time.Duration, p *troupe.Payload, err error) {
		if d != nil {
			time.Sleep(d(p, err)) // of virtual time
		}
	}
	return troupe.Options{Middleware: []troupe.Middleware{func(next troupe.Handler) troupe.Handler {
		return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			sleep(before, p, nil)
			err := next.Perform(ctx, p)
			sleep(behind, p, err)
			return err
		})
	}}}
}

// A suspect that is collected when other jobs may begin again has a call of its own all the same.
func TestASuspectIsNotCollectedWithOthers(t *testing.T) {
	var c calls
	const suspect = "s0"
	var beside atomic.Int64
	slow := around(func(p *troupe.Payload, _ error) time.Duration {
		return map[bool]time.Duration{true: 20 * time.Second}[p.JID() == suspect]
	}, nil)
	reg := many(&c, troupe.Collect{Max: 10, Wait: 30 * time.Second}, func(_ context.Context, _ int, jobs []*troupe.Job[row]) []error {
		if slices.ContainsFunc(jobs, func(job *troupe.Job[row]) bool { return job.JID == suspect }) {
			beside.Add(int64(len(jobs)))
		}
		return nil
	}, slow)
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 2}}}, func(t *testing.T, k *testkit.Kit) {
		k.Redis.LPush(t.Context(), "queue:default.suspects", `{"class":"Row","args":[0],"jid":"`+suspect+`","queue":"default","retry":true}`)
		k.Await("the suspect runs", func() bool { return k.Stats().Busy == 1 })
		rows(k, 2, "")
		k.Await("all are done", func() bool { return k.Stats().Processed == 3 })
		harness.Equal(t, "jobs in the call of the suspect", beside.Load(), 1)
	})
}

// At its deadline a stop waits, for the grace, for jobs whose call has ended and whose middleware goes on.
func TestAStopWaitsForJobsWhoseCallHasEnded(t *testing.T) {
	var c calls
	var ended atomic.Int64
	reg := many(&c, troupe.Collect{Max: 5}, func(ctx context.Context, _ int, _ []*troupe.Job[row]) []error {
		<-ctx.Done()
		return nil
	}, around(nil, func(*troupe.Payload, error) time.Duration {
		time.Sleep(time.Second) // of virtual time
		ended.Add(1)
		return 0
	}))
	testkit.Virtual(t, actors.Config{Registry: reg, Capsules: []actors.Capsule{{Concurrency: 1}}}, func(t *testing.T, k *testkit.Kit) {
		rows(k, 5, "")
		k.Await("the call", func() bool { return len(c.all()) == 1 })
		report := k.Stop()
		harness.Equal(t, "ended", ended.Load(), 5)
		harness.Equal(t, "abandoned", len(report.Abandoned), 0)
		harness.Equal(t, "requeued", len(report.Requeued), 5)
	})
}

// slowRequeue is a fetcher whose requeue takes a second.
type slowRequeue struct{ fetch.Isolator }

func (f *slowRequeue) Settle(ctx context.Context, moves []fetch.Move) ([]fetch.Result, error) {
	if moves[0].To == fetch.ToQueue {
		time.Sleep(time.Second) // of virtual time
	}
	return f.Isolator.Settle(ctx, moves)
}

// Jobs that a stop has taken while their call waited for a slot are in no call, though their contexts end later.
func TestJobsThatWereTakenAreInNoCall(t *testing.T) {
	var c calls
	const timeout = 5 * time.Second
	reg := many(&c, troupe.Collect{Max: 5, Wait: time.Hour}, nil)
	troupe.HandleClass(reg, "Hold", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		time.Sleep(timeout + 500*time.Millisecond) // of virtual time: until the jobs are taken, and not yet requeued
		return nil
	}))
	cfg := actors.Config{Registry: reg, Timeout: timeout, Capsules: []actors.Capsule{{
		Concurrency: 1,
		Fetch: func(env fetch.Env) (fetch.Fetcher, error) {
			f, err := fetch.NewReliable(env)
			return &slowRequeue{f.(fetch.Isolator)}, err
		},
	}}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		rows(k, 3, "")
		k.Await("they are collected", func() bool { return inProgress(t, k.Redis) == 3 && k.Stats().Busy == 0 })
		k.PushClass("Hold", nil)
		k.Await("the slot is taken", func() bool { return k.Stats().Busy == 1 })
		report := k.Stop()
		harness.Equal(t, "requeued", len(report.Requeued), 4)
		harness.Equal(t, "calls", fmt.Sprint(c.all()), "[]")
	})
}

// Jobs that another process takes while they are collected leave the collection: each is in one call, when it comes again.
func TestFencedJobsLeaveTheirCollection(t *testing.T) {
	var c calls
	var fenced atomic.Int64
	reg := many(&c, troupe.Collect{Max: 10, Wait: time.Minute}, nil, around(nil, func(_ *troupe.Payload, err error) time.Duration {
		if errors.Is(err, troupe.ErrFenced) {
			fenced.Add(1)
		}
		return 0
	}))
	const lease = 30 * time.Second
	cfg := actors.Config{Registry: reg, Lease: lease, Capsules: []actors.Capsule{{Concurrency: 1}}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		ctx := t.Context()
		rows(k, 2, "")
		k.Await("both are collected", func() bool { return inProgress(t, k.Redis) == 2 && k.Stats().Busy == 0 })
		rescuer := harness.Must(rescue.New(rescue.Config{Redis: k.Redis, Lease: lease}))(t)
		k.Await("they are taken", func() bool {
			for id := range k.Redis.HGetAll(ctx, "troupe:places").Val() {
				k.Redis.Del(ctx, "troupe:lease:"+id)
				k.Redis.ZAdd(ctx, "troupe:expiries", redis.Z{Score: 0, Member: id})
			}
			return harness.Must(rescuer.Rescue(ctx))(t).Units == 2
		})
		k.Await("their runs have ended", func() bool { return fenced.Load() == 2 })
		harness.Equal(t, "calls", len(c.all()), 0)
		time.Sleep(2 * time.Minute) // of virtual time
		harness.Equal(t, "calls", fmt.Sprint(c.all()), "[2]")
		harness.Equal(t, "in progress", inProgress(t, k.Redis), 0)
	})
}
