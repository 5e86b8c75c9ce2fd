package actors_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// early takes two more jobs than it is asked for. Its calls take long, so that the capsule has patience with those that
// wait for a worker.
type early struct{ fetch.Fetcher }

func (f early) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if n > 0 {
		n += 2
		time.Sleep(9 * time.Second) // of virtual time
	}
	return f.Fetcher.Take(ctx, n, acks)
}

// earlyEffector is one that carries out effects.
type earlyEffector struct{ early }

func (f earlyEffector) Reaches(queue, key string) error {
	return f.Fetcher.(fetch.Effector).Reaches(queue, key)
}

// cancelKit is a daemon with one worker, at a job Waits, and with jobs in its inbox.
type cancelKit struct {
	*testkit.Kit
	mu      sync.Mutex
	began   []string // jids
	release func()
	deleted chan event.JobCancelled
}

func startCancelKit(t *testing.T, mem *testkit.Server, effects bool, push func(c *client.Client)) *cancelKit {
	t.Helper()
	released := make(chan struct{})
	k := &cancelKit{release: sync.OnceFunc(func() { close(released) }), deleted: make(chan event.JobCancelled, 10)}
	var r troupe.Registry
	begin := func(p *troupe.Payload) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.began = append(k.began, p.JID())
	}
	troupe.HandleClass(&r, "Waits", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		begin(p)
		<-released
		return nil
	}))
	troupe.HandleClass(&r, "Quick", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		begin(p)
		return nil
	}))
	push(client.New(mem.Client))
	k.Kit = testkit.Start(t, actors.Config{
		Redis: mem.Client, Registry: &r, Timeout: time.Minute,
		Capsules: []actors.Capsule{{Concurrency: 1, Queues: fetch.Strict{"default"}, Fetch: func(env fetch.Env) (fetch.Fetcher, error) {
			f, err := fetch.NewReliable(env)
			if effects {
				return earlyEffector{early{f}}, err
			}
			return early{f}, err
		}}},
		Subscribers: []func(event.Event){func(e event.Event) {
			if c, ok := e.(event.JobCancelled); ok {
				k.deleted <- c
			}
		}},
	})
	t.Cleanup(k.release)
	k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
	synctest.Wait()
	return k
}

// end lets all jobs run, and returns those that have.
func (k *cancelKit) end(t *testing.T) []string {
	t.Helper()
	k.release()
	k.Await("all are done", func() bool {
		return k.Stats().Busy == 0 && size(t, k.Redis, "queue:default") == 0 && inProgress(t, k.Redis) == 0
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.began
}

// A job that was fetched and has not begun is deleted with its lock, and does not run.
func TestCancelOfAJobThatWasFetchedAndHasNotBegun(t *testing.T) {
	for name, effects := range map[string]bool{"with effects": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				var waits, unique, other string
				lock := client.Unique(troupe.Unique{Until: troupe.UntilDone, For: time.Hour})
				k := startCancelKit(t, mem, effects, func(c *client.Client) {
					waits = harness.Must(c.PushClass(ctx, "Waits", nil))(t)
					unique = harness.Must(c.PushClass(ctx, "Quick", []any{1}, lock))(t)
					other = harness.Must(c.PushClass(ctx, "Quick", []any{2}))(t)
				})
				harness.Equal(t, "in progress", inProgress(t, mem.Client), 3)

				got, err := inspect.New(mem.Client).Cancel(ctx, unique)
				if want := (inspect.Cancelled{Place: inspect.Fetched, Process: k.Identity(), Deleted: true}); err != nil || got != want {
					t.Fatalf("%+v, %v", got, err)
				}
				harness.Equal(t, "it says", got.String(), "it was fetched by "+k.Identity()+", had not begun and is deleted")
				harness.Equal(t, "in progress", inProgress(t, mem.Client), 2)
				if e := <-k.deleted; !e.Deleted || e.Job.JID != unique {
					t.Errorf("event %+v", e)
				}
				_, err = inspect.New(mem.Client).Cancel(ctx, unique)
				if !errors.Is(err, inspect.ErrNotFound) {
					t.Errorf("once more: %v", err)
				}
				var held *client.DuplicateError
				again, err := client.New(mem.Client).PushClass(ctx, "Quick", []any{1}, lock)
				if effects && err != nil || !effects && !errors.As(err, &held) { // only the first frees locks
					t.Errorf("a push of the same: %v", err)
				}
				want := []string{waits, other}
				if effects {
					want = append(want, again)
				}
				if began := k.end(t); !slices.Equal(began, want) {
					t.Errorf("%q ran, want %q", began, want)
				}
			})
		})
	}
}

// Daemon.Cancel finds it, too, and a job of this process that runs.
func TestDaemonCancelOfWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		var waits, next string
		k := startCancelKit(t, mem, true, func(c *client.Client) {
			waits = harness.Must(c.PushClass(ctx, "Waits", nil))(t)
			next = harness.Must(c.PushClass(ctx, "Quick", nil))(t)
		})
		if !k.Daemon.Cancel(next) || !k.Daemon.Cancel(waits) || k.Daemon.Cancel(next) || k.Daemon.Cancel("nobody") {
			t.Error("Cancel tells something else")
		}
		if began := k.end(t); !slices.Equal(began, []string{waits}) {
			t.Errorf("%q ran", began)
		}
	})
}

// An iterable job that has begun before stays, and ends when it runs next, after OnCancel.
func TestCancelOfAnIterableJobThatIsFetched(t *testing.T) {
	for name, daemon := range map[string]bool{"by the inspector": false, "by the daemon": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				var jid string
				k := startCancelKit(t, mem, true, func(c *client.Client) {
					harness.Must(c.PushClass(ctx, "Waits", nil))(t)
					jid = harness.Must(c.PushClass(ctx, "Quick", nil))(t)
					harness.OK(t, mem.Client.HSet(ctx, "it-"+jid, "ex", 1, "c", "7").Err())
				})
				if daemon {
					harness.Equal(t, "found", k.Daemon.Cancel(jid), true)
				} else {
					got, err := inspect.New(mem.Client).Cancel(ctx, jid)
					if want := (inspect.Cancelled{Place: inspect.Fetched, Process: k.Identity()}); err != nil || got != want {
						t.Errorf("%+v, %v", got, err)
					}
				}
				if mem.Client.HGet(ctx, "it-"+jid, "cancelled").Val() == "" {
					t.Error("it is not asked to end")
				}
				if began := k.end(t); !slices.Contains(began, jid) {
					t.Errorf("%q ran, but not %s", began, jid)
				}
			})
		})
	}
}

// Whenever a cancellation comes, a job runs once or is deleted, never both and never neither.
func TestCancelledJobsRunOnceOrAreDeleted(t *testing.T) {
	rdb, _ := redistest.New(t)
	jobs := harness.Effort(1000, 5000)
	jids := harness.Must(client.New(rdb).PushBulkClass(ctx, "Quick", func(yield func([]any) bool) {
		for n := range jobs {
			if !yield([]any{n}) {
				return
			}
		}
	}))(t)
	place := map[string]int{}
	for n, jid := range jids {
		place[jid] = n
	}
	var mu sync.Mutex
	ends, deleted := map[string]int{}, 0
	end := func(jid string) {
		mu.Lock()
		defer mu.Unlock()
		ends[jid]++
	}
	soon := make(chan string)
	var r troupe.Registry
	troupe.HandleClass(&r, "Quick", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		end(p.JID())
		select {
		case soon <- jids[(place[p.JID()]+1+rand.IntN(16))%jobs]: // it is in the inbox, or about to begin
		default:
		}
		time.Sleep(200 * time.Microsecond) // others are fetched ahead meanwhile
		return nil
	}))
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, Concurrency: 2,
		Subscribers: []func(event.Event){func(e event.Event) {
			switch e := e.(type) {
			case event.JobCancelled:
				if e.Deleted {
					end(e.Job.JID)
					mu.Lock()
					deleted++
					mu.Unlock()
				}
			case event.EventsDropped:
				t.Errorf("%d events dropped", e.N)
			}
		}},
	})
	for range 4 {
		go func() {
			for {
				select {
				case jid := <-soon:
					k.Daemon.Cancel(jid)
				case <-t.Context().Done():
					return
				}
			}
		}()
	}
	k.Await("all have run or are deleted", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(ends) == jobs
	})
	k.Await("all are settled", func() bool { return inProgress(t, rdb)+size(t, rdb, "queue:default") == 0 })
	mu.Lock()
	defer mu.Unlock()
	t.Logf("%d of %d deleted", deleted, jobs)
	for jid, n := range ends {
		if n != 1 {
			t.Errorf("%s has ended %d times", jid, n)
		}
	}
}
