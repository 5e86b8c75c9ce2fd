package actors_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

// tape records the names of events, jobs with their path.
type tape struct {
	mu    sync.Mutex
	names []string
}

func (r *tape) record(e actors.Event) {
	name := strings.TrimPrefix(reflect.TypeOf(e).String(), "actors.")
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
		s := testkit.NewScripted(t)
		var r tape
		hung := make(chan struct{})
		k := testkit.Start(t, actors.Config{
			Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 1}}, Timeout: time.Second,
			Subscribers: []actors.Subscriber{
				func(actors.Event) { panic("a bad subscriber") },
				func(actors.Event) { <-hung },
				r.record,
			},
		})
		for _, fate := range []string{"ok", "panic", "kill", "discard"} {
			jid := push(k, 1, testkit.Fate{Do: fate})[0]
			k.Await(fate, func() bool { return s.Started(jid) && k.Stats().Busy == 0 && k.Stats().Waiting == 0 })
		}
		k.AwaitTree("the restart", func(tree actors.Tree) bool { return tree.Restarts("launcher/default/processor-0") == 1 })
		deaf := push(k, 1, testkit.Deaf())[0]
		k.Await("deaf", func() bool { return s.Started(deaf) })
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
		s := testkit.NewScripted(t)
		gate := make(chan struct{})
		var seen, lost int
		k := testkit.Start(t, actors.Config{Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 5}}})
		synctest.Wait() // every actor has started
		cancel := k.Subscribe(func(e actors.Event) {
			<-gate
			if d, ok := e.(actors.EventsDropped); ok {
				lost += d.N
			} else {
				seen++
			}
		})
		const n = 3000 // two events each
		push(k, n, testkit.OK())
		k.Await("all done", func() bool { return k.Stats().Processed == n })
		close(gate)
		k.Await("room", func() bool { synctest.Wait(); return true })
		push(k, 1, testkit.OK())
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
	source, err := os.ReadFile("events.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^\t([A-Z]\w+) struct`).FindAllStringSubmatch(string(source), -1)
	if len(names) < 15 {
		t.Fatalf("%d events found in the source", len(names))
	}
	for _, n := range names {
		if !strings.Contains(string(doc), fmt.Sprintf("| `%s` |", n[1])) {
			t.Errorf("docs/events.md does not have %s", n[1])
		}
	}
}
