package actors_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

var errClosed = errors.New("the bank is closed")

// parker parks the first times runs of a job, then it is done.
type parker struct {
	times int
	wait  time.Duration

	mu   sync.Mutex
	runs []*troupe.Payload
	at   []time.Time
}

func (p *parker) Perform(_ context.Context, job *troupe.Payload) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs, p.at = append(p.runs, job.Clone()), append(p.at, time.Now())
	job.SetString("queue", "elsewhere") // its own affair
	if len(p.runs) <= p.times {
		return troupe.Park(p.wait, errClosed)
	}
	return nil
}

func (p *parker) registry() *troupe.Registry {
	var r troupe.Registry
	troupe.HandleClass(&r, "Parker", p)
	return &r
}

func TestAParkedJobHasNotFailed(t *testing.T) {
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			log := new(harness.Buffer)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: (&parker{times: 1, wait: time.Hour}).registry(), Logger: zerolog.New(log),
				Capsules: []actors.Capsule{{Concurrency: 1, Fetch: factory}},
				ErrorHandlers: []actors.ErrorHandler{func(_ context.Context, err error, _ actors.ErrorContext) {
					t.Errorf("an error handler was told of %v", err)
				}},
				DeathHandlers: []actors.DeathHandler{func(_ context.Context, _ *troupe.Payload, err error) {
					t.Errorf("a death handler was told of %v", err)
				}},
			}, testkit.Strict())
			const raw = `{"class":"Parker","args":[1.50, {"ä":"\u00e4"}],"jid":"p1","queue":"default","retry":false,"retry_count":7,"x":  1}`
			began := time.Now()
			var parked event.JobParked
			k.Expect(testkit.Events(func(e event.JobParked) bool { parked = e; return true }).Of("Parker").Because(errClosed).Times(1), func() {
				harness.OK(t, rdb.LPush(ctx, "queue:default", raw).Err())
			})
			k.Await("all settled", k.Settled)
			entries := rdb.ZRangeWithScores(ctx, "schedule", 0, -1).Val()
			if len(entries) != 1 || entries[0].Member != raw {
				t.Fatalf("schedule holds %v, want the job as it was pushed", entries)
			}
			from, to := scores.Of(began.Add(time.Hour)), scores.Of(time.Now().Add(time.Hour))
			if s := entries[0].Score; s < from || s > to || max(s-scores.Of(parked.Until), scores.Of(parked.Until)-s) > 1e-3 {
				t.Errorf("due at %v, the event says %v, want an hour from now", s, scores.Of(parked.Until))
			}
			if s := k.Stats(); s.Processed != 0 || s.Failed != 0 {
				t.Errorf("counted as run: %+v", s)
			}
			k.Stop()
			for _, key := range []string{"queue:default", "retry", "dead"} {
				if n := size(t, rdb, key); n != 0 {
					t.Errorf("%s has %d members", key, n)
				}
			}
			harness.Equal(t, "jobs are still in progress", inProgress(t, rdb), 0)
			harness.Equal(t, "stat:processed is", rdb.Get(ctx, "stat:processed").Val(), "")
			if log.Count(`"level":"info"`) == 0 || log.Count(`"outcome":"parked"`) != 1 || log.Count(`"level":"error"`) != 0 {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}

func TestAParkedJobComesBackUnchangedWhenItIsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &parker{times: 3, wait: 2 * time.Minute}
		k := testkit.Start(t, actors.Config{Registry: p.registry()}, testkit.Strict())
		k.PushClass("Parker", []any{1}, client.Retry(1), client.Set("retry_count", 0), client.Set("failed_at", 1.5))
		k.Expect(testkit.Events[event.JobDone]().Times(1).Within(7*time.Minute), nil)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.runs) != 4 {
			t.Fatalf("it ran %d times, want 4", len(p.runs))
		}
		for i, run := range p.runs {
			if i > 0 {
				if wait := p.at[i].Sub(p.at[i-1]); wait < p.wait || wait > p.wait+10*time.Second {
					t.Errorf("run %d came %s after the one before", i, wait)
				}
			}
			run.Delete("enqueued_at") // set anew by every push, as Sidekiq does
			if got, want := string(run.Bytes()), string(p.runs[0].Bytes()); got != want {
				t.Errorf("run %d got\n%s\nwant\n%s", i, got, want)
			}
		}
		if s := k.Stats(); s.Processed != 1 || s.Failed != 0 {
			t.Errorf("counts %+v", s)
		}
	})
}

// A panic with it asks for nothing.
func TestAPanicIsNeverAPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r troupe.Registry
		troupe.HandleClass(&r, "Panics", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			panic(troupe.Park(time.Minute, nil))
		}))
		m := testkit.NewMemory(t)
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: &r, Capsules: []actors.Capsule{{Concurrency: 1}}}, testkit.Strict())
		k.Expect(testkit.Restarts("launcher/default/processor-0").Times(1), func() { k.PushClass("Panics", []any{}) })
		k.Await("all settled", k.Settled)
		if n := size(t, m.Client, "retry"); n != 1 || size(t, m.Client, "schedule") != 0 || k.Stats().Failed != 1 {
			t.Errorf("retry has %d members, counts %+v", n, k.Stats())
		}
	})
}

// A schedule that Redis refuses holds up the parked job and nobody else.
func TestAParkThatRedisRefusesWaitsInItsPrivatePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		s := script.New(t)
		r := s.Registry()
		troupe.HandleClass(r, "Parker", &parker{times: 1, wait: time.Minute})
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: r, Capsules: []actors.Capsule{{Concurrency: 1}}})
		harness.OK(t, m.Client.Set(ctx, "schedule", "a string", 0).Err())
		k.PushClass("Parker", []any{})
		other := k.Push(script.OK())
		k.Await("the other job", func() bool { return s.Ended(other) })
		if n := inProgress(t, m.Client); n == 0 {
			t.Error("the parked job is nowhere")
		}
		m.Client.Del(ctx, "schedule")
		k.Expect(testkit.Events[event.JobParked]().Times(1), nil)
		harness.Equal(t, "schedule has jobs", size(t, m.Client, "schedule"), 1)
	})
}

// Stopped and killed processes lose no parked job: what was not in schedule yet
// is still in progress or in its queue.
func TestAParkAtTheDeadlineIsNotDoneTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		var r troupe.Registry
		troupe.HandleClass(&r, "Late", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
			<-ctx.Done()
			return troupe.Park(time.Minute, context.Cause(ctx))
		}))
		k := testkit.Start(t, actors.Config{
			Redis: m.Client, Registry: &r, Timeout: time.Second,
			Capsules: []actors.Capsule{{Concurrency: 1, Queues: fetch.Strict{"default"}}},
		}, testkit.Strict())
		jid := k.PushClass("Late", []any{})
		k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
		var report actors.DrainReport
		k.Expect(testkit.Events[event.JobLate]().Times(1), func() { report = k.Stop() })
		if len(report.Requeued) != 1 || report.Requeued[0].JID != jid {
			t.Errorf("drain report: %s", report)
		}
		if q, s := size(t, m.Client, "queue:default"), size(t, m.Client, "schedule"); q != 1 || s != 0 {
			t.Errorf("queue has %d jobs, schedule %d; want the job in its queue only", q, s)
		}
	})
}
