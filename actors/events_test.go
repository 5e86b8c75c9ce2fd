package actors_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// tape records the names of events, jobs with their path.
type tape struct {
	mu    sync.Mutex
	names []string
}

func (r *tape) record(e event.Event) {
	name := strings.TrimPrefix(reflect.TypeOf(e).String(), "event.")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = append(r.names, name)
}

func (r *tape) only(names ...string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.names), func(n string) bool { return !slices.Contains(names, n) })
}

func TestEventsTellTheStoryOfAJobAndItsProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		var r tape
		hung := make(chan struct{})
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 1}}, Timeout: time.Second,
			Subscribers: []func(event.Event){
				func(event.Event) { panic("a bad subscriber") },
				func(event.Event) { <-hung },
				r.record,
			},
		})
		for _, step := range []string{"ok", "panic", "kill", "discard"} {
			jid := push(k, 1, script.Step{Do: step})[0]
			k.Await(step, func() bool { return s.Runs()[jid] > 0 && k.Stats().Busy == 0 && k.Stats().Waiting == 0 })
		}
		k.Await("the restart", func() bool { return k.Tree().Find("launcher/default/processor-0").Restarts == 1 })
		unresponsive := push(k, 1, script.Step{Do: "unresponsive"})[0]
		k.Await("unresponsive", func() bool { return s.Runs()[unresponsive] > 0 })
		k.Stop()
		s.Release()
		close(hung)
		synctest.Wait()
		got := r.only("JobStarted", "JobDone", "JobFailed", "JobRetried", "JobDied", "JobDropped", "JobLate",
			"ActorCrashed", "ActorRestarted", "QuietBegan", "StopBegan", "JobsRequeued", "JobsAbandoned")
		want := []string{
			"JobStarted", "JobDone",
			"JobStarted", "JobFailed", "JobRetried", "ActorCrashed", "ActorRestarted",
			"JobStarted", "JobFailed", "JobDied",
			"JobStarted", "JobFailed", "JobDropped",
			"JobStarted", "QuietBegan", "StopBegan", "JobsRequeued", "JobsAbandoned",
		}
		if !slices.Equal(got, want) {
			t.Errorf("events\n%q\nwant\n%q", got, want)
		}
	})
}

func TestSlowSubscriberIsToldWhatItLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		gate := make(chan struct{})
		var seen, lost int
		k := testkit.Start(t, actors.Config{Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 5}}})
		synctest.Wait() // every actor has started
		cancel := k.Subscribe(func(e event.Event) {
			<-gate
			if d, ok := e.(event.EventsDropped); ok {
				lost += d.N
			} else {
				seen++
			}
		})
		const n = 3000 // two events each
		push(k, n, script.OK())
		k.Await("all done", func() bool { return k.Stats().Processed == n })
		close(gate)
		k.Await("room", func() bool { synctest.Wait(); return true })
		push(k, 1, script.OK())
		k.Await("one more", func() bool { return k.Stats().Processed == n+1 && k.Stats().Waiting == 0 })
		synctest.Wait()
		cancel()
		cancel()
		if seen+lost != 2*n+2 || lost == 0 {
			t.Errorf("seen %d, told of %d lost, want %d in all and some lost", seen, lost, 2*n+2)
		}
	})
}

func TestEventsAreDocumented(t *testing.T) {
	doc := harness.Must(os.ReadFile("../docs/events.md"))(t)
	found := 0
	for _, file := range []string{"job.go", "actor.go", "event.go"} {
		source := harness.Must(os.ReadFile("../event/" + file))(t)
		for _, n := range regexp.MustCompile(`(?m)^\t([A-Z]\w+) +struct`).FindAllStringSubmatch(string(source), -1) {
			found++
			if !strings.Contains(string(doc), fmt.Sprintf("| `%s` |", n[1])) {
				t.Errorf("docs/events.md does not have %s", n[1])
			}
		}
	}
	if found < 31 {
		t.Fatalf("%d events found in the source", found)
	}
}

// A subscriber that does not return is no reason for a stop to wait.
func TestABlockedSubscriberDelaysNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := testkit.Start(t, actors.Config{
			Logger: zerolog.Nop(), Subscribers: []func(event.Event){func(event.Event) { <-release }}, Capsules: []actors.Capsule{{Concurrency: 1}},
		})
		time.Sleep(5 * time.Second)
		began := time.Now()
		k.Stop()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the stop took %s", took)
		}
		close(release)
	})
}

// One that is only slow has what was waiting for it.
func TestAStopWaitsForASlowSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped atomic.Int32
		k := testkit.Start(t, actors.Config{
			Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 1}},
			Subscribers: []func(event.Event){func(e event.Event) {
				if _, ok := e.(event.ActorStopped); ok {
					time.Sleep(300 * time.Millisecond)
					stopped.Add(1)
				}
			}},
		})
		k.Stop()
		harness.Equal(t, "it heard of the end of actors", stopped.Load(), 7)
	})
}

// A bug in a subscriber costs a line a minute, not one for each event.
func TestAFailingSubscriberIsReportedOnceAMinute(t *testing.T) {
	for name, fail := range map[string]func(){"panic: a bug": func() { panic("a bug") }, "it called runtime.Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log harness.Buffer
				s := script.New(t)
				k := testkit.Start(t, actors.Config{
					Registry: s.Registry(), Logger: zerolog.New(&log), Capsules: []actors.Capsule{{Concurrency: 2}},
					Subscribers: []func(event.Event){func(e event.Event) {
						if _, ok := e.(event.JobDone); ok {
							fail()
						}
					}},
				})
				push(k, 100, script.OK())
				k.Await("all settled", k.Settled)
				k.Await("all", func() bool { return k.Stats().Processed == 100 })
				synctest.Wait()
				const message = "an event subscriber failed"
				if n, why, stack := log.Count(message), log.Count(name), log.Count("events_test.go:"); n != 1 || why != 1 || stack == 0 {
					t.Errorf("%d lines, %d with the reason, %d with the stack:\n%s", n, why, stack, log.String())
				}
				time.Sleep(time.Minute)
				push(k, 1, script.OK())
				k.Await("one more", func() bool { return k.Stats().Processed == 101 })
				synctest.Wait()
				if n := log.Count(message); n != 2 || log.Count(`"failures":100`) != 1 {
					t.Errorf("%d lines:\n%s", n, log.String())
				}
			})
		})
	}
}

// After its cancel a subscriber hears nothing of what still waited for it.
func TestACancelledSubscriberHearsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 2}}})
		var heard atomic.Int32
		cancel := k.Subscribe(func(event.Event) { heard.Add(1); time.Sleep(time.Second) })
		push(k, 20, script.OK())
		k.Await("all", func() bool { return k.Stats().Processed == 20 })
		cancel()
		before := heard.Load()
		time.Sleep(5 * time.Minute) // for all that waited
		if after := heard.Load(); after != before {
			t.Errorf("heard %d events, %d of them after the cancel", after, after-before)
		}
	})
}
