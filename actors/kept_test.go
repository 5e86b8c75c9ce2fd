package actors_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/testkit"
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
				s := testkit.NewScripted(t)
				k := testkit.Start(t, actors.Config{Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 4}}})
				synctest.Wait()
				for i := 1; i < 4; i++ {
					way.on(k, fmt.Sprint("launcher/default/processor-", i))
				}
				push(k, 8, testkit.Slow(10*time.Millisecond))
				time.Sleep(time.Second)
				if n := k.Stats().Processed; n != 8 {
					t.Errorf("%d of 8 jobs are done", n)
				}
				for i := 1; i < 4; i++ {
					way.off(k, fmt.Sprint("launcher/default/processor-", i))
				}
				push(k, 4, testkit.Hang())
				time.Sleep(time.Second)
				if n := k.Stats().Busy; n != 4 {
					t.Errorf("%d of 4 slots are busy after the end", n)
				}
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
				s := testkit.NewScripted(t)
				k := testkit.Start(t, actors.Config{Redis: m.Client, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 2}}})
				synctest.Wait()
				way.on(k, "launcher/default/processor-0")
				way.on(k, "launcher/default/processor-1")
				push(k, 3, testkit.OK())
				time.Sleep(time.Second)
				if n := m.Client.LLen(ctx, keys.Queue("default")).Val(); n != 3 {
					t.Errorf("%d of 3 jobs are in the queue", n)
				}
				way.off(k, "launcher/default/processor-1")
				time.Sleep(time.Second)
				if n := k.Stats().Processed; n != 3 {
					t.Errorf("%d of 3 jobs are done", n)
				}
			})
		})
	}
}

// A log hook that panics at the news that Redis is back: what the fetch brought just
// then is run.
func TestALogThatPanicsAfterAFetchCostsNoJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := testkit.NewMemory(t)
		faults := testkit.NewFaults(t, m.Options())
		s := testkit.NewScripted(t)
		panics := 0
		k := testkit.Start(t, actors.Config{
			Redis: faults.Client(), Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 2}},
			Logger: zerolog.New(zerolog.NewTestWriter(t)).Hook(zerolog.HookFunc(func(_ *zerolog.Event, _ zerolog.Level, text string) {
				if text == "redis is back" {
					panics++
					panic(text)
				}
			})),
		})
		synctest.Wait()
		faults.Add(testkit.Fault{Do: testkit.Refuse("LOADING Redis is loading the dataset in memory"), Times: 1, Where: func(c testkit.Command) bool {
			return strings.HasPrefix(strings.ToLower(c[0]), "eval") && c.Mentions(keys.Queue("default"))
		}})
		pusher := client.New(m.Client)
		for range 5 {
			if _, err := pusher.Push(ctx, testkit.OK()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if n := k.Stats().Processed; n != 5 || panics != 1 {
			t.Errorf("%d of 5 jobs are done, after %d panics", n, panics)
		}
	})
}
