package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
)

// keepings are the ways to keep messages from an actor.
var keepings = map[string]struct{ on, off func(*testkit.Kit, string) }{
	"held":      {(*testkit.Kit).Hold, (*testkit.Kit).Release},
	"suspended": {(*testkit.Kit).Suspend, (*testkit.Kit).Resume},
}

// While processors are held or suspended, as they are during the backoff of a
// supervisor that restarts them all, the others run what there is; nothing waits for them.
func TestNoJobWaitsForAProcessorThatTakesNone(t *testing.T) {
	for name, way := range keepings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := script.New(t)
				k := testkit.Start(t, actors.Config{Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 4}}})
				synctest.Wait()
				for i := 1; i < 4; i++ {
					way.on(k, fmt.Sprint("launcher/default/processor-", i))
				}
				push(k, 8, script.Slow(10*time.Millisecond))
				time.Sleep(time.Second)
				harness.Equal(t, "of 8 jobs are done", k.Stats().Processed, 8)
				for i := 1; i < 4; i++ {
					way.off(k, fmt.Sprint("launcher/default/processor-", i))
				}
				push(k, 4, script.Hang())
				time.Sleep(time.Second)
				harness.Equal(t, "of 4 slots are busy after the end", k.Stats().Busy, 4)
				s.Release()
			})
		})
	}
}

// Where no processor takes one, jobs stand in their queue, for another process, and
// nobody asks for them again and again.
func TestJobsStayInTheirQueueWhileNoProcessorTakesOne(t *testing.T) {
	for name, way := range keepings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := testkit.NewMemory(t)
				s := script.New(t)
				k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 2}}})
				synctest.Wait()
				way.on(k, "launcher/default/processor-0")
				way.on(k, "launcher/default/processor-1")
				push(k, 3, script.OK())
				time.Sleep(time.Second)
				harness.Equal(t, "of 3 jobs are in the queue", m.Client.LLen(ctx, keys.Queue("default")).Val(), 3)
				way.off(k, "launcher/default/processor-1")
				time.Sleep(time.Second)
				harness.Equal(t, "of 3 jobs are done", k.Stats().Processed, 3)
			})
		})
	}
}

// A log hook that panics at the news that Redis serves again: what the fetch brought just
// then is run.
func TestALogThatPanicsAfterAFetchCostsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		faults := chaos.NewProxy(t, m.Options())
		s := script.New(t)
		panics := 0
		k := testkit.Start(t, actors.Config{
			Redis: faults.Client(), Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 2}},
			Logger: zerolog.New(zerolog.NewTestWriter(t)).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, text string) {
				if text == "redis serves again" {
					panics++
					panic(text)
				}
			})),
		})
		synctest.Wait()
		faults.Add(chaos.Fault{Do: chaos.Effect{Refuse: "LOADING Redis is loading the dataset in memory"}, Times: 1, Mentions: keys.Queue("default"), Where: func(c []string) bool {
			return strings.HasPrefix(strings.ToLower(c[0]), "eval")
		}})
		pusher := client.New(m.Client)
		for range 5 {
			harness.Must(pusher.Push(ctx, script.OK()))(t)
		}
		time.Sleep(time.Minute)
		if n := k.Stats().Processed; n != 5 || panics != 1 {
			t.Errorf("%d of 5 jobs are done, after %d panics", n, panics)
		}
	})
}

// stashing is a fetcher of which one reply was lost: the unit that it took is with the
// fetcher, of which only a Take can have it.
type stashing struct {
	fetch.Fetcher
	stash []fetch.Unit
	lost  bool
}

func (f *stashing) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	if len(acks) > 0 && n > 0 && !f.lost {
		f.lost = true
		var err error
		if f.stash, err = f.Fetcher.Take(ctx, n, nil); err != nil || len(f.stash) != 1 {
			panic("no unit to lose")
		}
		return nil, errors.New("connection broken")
	}
	units, err := f.Fetcher.Take(ctx, n, acks)
	if n > 0 {
		units, f.stash = append(f.stash, units...), nil
	}
	return units, err
}

// Wait looks at the queues only.
func (f *stashing) Wait(ctx context.Context, d time.Duration) error {
	<-ctx.Done()
	return ctx.Err()
}

// A Take that brings the ack of the only job fails, and with it goes what it took: the
// next Take comes though there is no ack left to bring and nothing is known to wait.
func TestWhatALostReplyBroughtIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		s := script.New(t)
		pusher := client.New(m.Client)
		first := harness.Must(pusher.Push(ctx, script.Slow(time.Second)))(t)
		k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{
			Concurrency: 1, Fetch: func(env fetch.Env) (fetch.Fetcher, error) {
				f, err := fetch.NewReliable(env)
				return &stashing{Fetcher: f}, err
			},
		}}})
		k.Await("the first runs", func() bool { return s.Runs()[first] > 0 })
		time.Sleep(500 * time.Millisecond)
		harness.Must(pusher.Push(ctx, script.OK()))(t)
		time.Sleep(30 * time.Second)
		harness.Equal(t, "of 2 jobs are done", k.Stats().Processed, 2)
	})
}
