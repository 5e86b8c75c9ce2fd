package chaos_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
)

// failures is a testing.TB that only takes notes.
type failures struct {
	testing.TB
	texts []string
}

func (f *failures) Helper()                      {}
func (f *failures) Errorf(text string, a ...any) { f.texts = append(f.texts, fmt.Sprintf(text, a...)) }

func TestNothingLostTellsWhatIs(t *testing.T) {
	c := chaos.Inventory{"a": {"retry"}, "b": {"queue:x", "in progress"}, "c": {"dead"}}
	f := &failures{TB: t}
	chaos.RequireNothingLost(f, c, []string{"a", "d"}, map[string]int{"d": 2}, nil)
	if len(f.texts) > 0 {
		t.Errorf("all is well, and it says %q", f.texts)
	}
	chaos.RequireNothingLost(f, c, []string{"a", "b", "c", "e"}, map[string]int{"c": 1}, nil)
	if got := strings.Join(f.texts, "; "); len(f.texts) != 3 || !strings.Contains(got, "lost") || !strings.Contains(got, "b in queue:x and in progress") || !strings.Contains(got, "c in dead") {
		t.Errorf("it says %q", f.texts)
	}
	f.texts = nil
	unnamed := chaos.Inventory{"a": {"unnamed troupe:claim:x:1.1"}, "b": {"unnamed troupe:claim:x:1.1", "retry"}}
	chaos.RequireNothingLost(f, unnamed, []string{"a"}, map[string]int{"a": 1}, func(string) bool { return true })
	if len(f.texts) > 0 {
		t.Errorf("all is well, and it says %q", f.texts)
	}
	chaos.RequireNothingLost(f, unnamed, []string{"a"}, nil, nil)
	if len(f.texts) != 1 || !strings.Contains(f.texts[0], "a in unnamed troupe:claim:x:1.1") {
		t.Errorf("it says %q", f.texts)
	}
	f.texts = nil
	chaos.RequireNothingLost(f, c, []string{"c"}, map[string]int{"c": 1}, func(jid string) bool { return jid == "c" })
	chaos.RequireAtMostRuns(f, map[string]int{"a": 2, "b": 3}, 2)
	if len(f.texts) != 1 || !strings.Contains(f.texts[0], "job b has run 3 times") {
		t.Errorf("it says %q", f.texts)
	}
}

// Every reply of the daemon may be lost, and every command cut: nothing of the
// jobs is, and none runs more often than faults hit it.
func TestADaemonOnAFaultyWayLosesNothing(t *testing.T) {
	for seed := range harness.Effort(2, 4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				faults := chaos.NewProxy(t, mem.Options())
				rec := chaos.NewRecorder(mem.Client, "rec")
				s := script.New(t)
				pusher := client.New(mem.Client)
				var jids []string
				for i := range 300 {
					step := script.OK()
					if i%3 == 0 {
						step = script.Slow(time.Duration(i) * time.Millisecond)
					}
					jid := harness.Must(pusher.Push(t.Context(), step))(t)
					jids = append(jids, jid)
				}
				k := testkit.Start(t, actors.Config{
					Redis: faults.Client(), Registry: s.Registry(), Middleware: []troupe.Middleware{rec.Middleware}, Logger: zerolog.Nop(),
				})
				faults.AtRandom(uint64(seed), 0.1, chaos.Effect{Cut: true}, chaos.Effect{Cut: true, Applied: true}, chaos.Effect{Refuse: "BUSY Redis is busy"}, chaos.Effect{Delay: 30 * time.Millisecond})
				k.Await("all done", func() bool { return len(rec.Done(t)) == len(jids) })
				faults.AtRandom(0, 0)
				k.Await("all settled", k.Settled)
				k.Await("a healthy tree", k.Healthy)
				if r := k.Stop(); len(r.Left)+len(r.Lost) > 0 {
					t.Errorf("the stop has left jobs unsettled: %s", r)
				}
				chaos.RequireNothingLost(t, chaos.TakeInventory(t, mem.Client), jids, rec.Done(t), nil)
				chaos.RequireAtMostRuns(t, rec.Runs(t), 1) // no process has died
			})
		})
	}
}

func TestACensusFindsEveryPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{Registry: s.Registry(), Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 1}}})
		want := map[string]string{}
		for place, step := range map[string]script.Step{"retry": script.Fail(), "dead": {Do: "kill"}} {
			jid := k.Push(step)
			k.Await(place, func() bool { return s.Ended(jid) })
			k.Await("all settled", k.Settled)
			want[jid] = place
		}
		want[k.Push(script.OK(), client.In(time.Hour))] = "schedule"
		running := k.Push(script.Hang())
		k.Await("it runs", func() bool { return s.Runs()[running] > 0 })
		want[running] = "in progress"
		time.Sleep(time.Second) // the wait that brought it has ended
		want[k.Push(script.OK())] = "queue:default"
		// A push may meet a wait that is just being ended: the job goes back.
		k.Await("it waits", func() bool { return k.Redis.LLen(t.Context(), "queue:default").Val() == 1 })
		c := chaos.TakeInventory(t, k.Redis)
		for jid, place := range want {
			if !slices.Equal(c[jid], []string{place}) {
				t.Errorf("%s is in %q, want %s", jid, c[jid], place)
			}
		}
		if len(c) != len(want) {
			t.Errorf("census %v", c)
		}
	})
}

func TestAnActorCrashesWhenAnEventComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script.New(t)
		k := testkit.Start(t, actors.Config{Registry: s.Registry()}, testkit.Strict())
		k.CrashWhen("launcher/poller", testkit.Events[event.JobStarted]().Times(2), errors.New("drill"))
		for range 5 {
			k.Push(script.OK())
		}
		k.Await("two restarts", func() bool { return k.Tree().Find("launcher/poller").Restarts == 2 })
		k.Await("all done", func() bool { return k.Stats().Processed == 5 })
	})
}

// The fetch's own call crashes the fetcher, before Redis has applied it.
func TestAnActorCrashesAtItsCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := chaos.NewProxy(t, testkit.NewMemory(t).Options())
		s := script.New(t)
		var k *testkit.Kit
		var armed atomic.Bool
		rule := faults.Add(chaos.Fault{
			Command: "evalsha", Times: 1,
			Mentions: "queue:default", Where: func([]string) bool { return armed.Load() },
			Do: chaos.Effect{Call: func() { k.Crash("launcher/default/fetcher", errors.New("drill")) }},
		})
		k = testkit.Start(t, actors.Config{Redis: faults.Client(), Registry: s.Registry(), Logger: zerolog.Nop()}, testkit.Strict())
		armed.Store(true)
		for range 20 {
			k.Push(script.OK())
		}
		k.Await("all done", func() bool { return k.Stats().Processed == 20 })
		if tree := k.Tree(); rule.Hits() != 1 || tree.Find("launcher/default/fetcher").Restarts != 1 {
			t.Errorf("%d hits\n%s", rule.Hits(), tree)
		}
	})
}
