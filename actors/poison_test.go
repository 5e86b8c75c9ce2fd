package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

const deadProcess = "elsewhere:7:cafe"

// orphan is a job that a dead process had in progress.
func orphan(t *testing.T, rdb redis.UniversalClient, raw string, suspect bool) {
	t.Helper()
	id, queue := deadProcess+"#default.1", "default"
	if suspect {
		queue += ".suspects"
	}
	place := "troupe:inprogress:" + id
	claim := fmt.Sprintf("%d.1", rdb.HLen(ctx, place).Val()+1)
	for _, err := range []error{
		rdb.LPush(ctx, "troupe:claim:"+id+":"+claim, raw).Err(),
		rdb.HSet(ctx, place, "!", "1 9", claim, queue+" 1").Err(),
		rdb.HSet(ctx, "troupe:places", id, `{"v":2,"queues":["default"]}`).Err(),
		// last: a rescuer that found it in the index and not registered would take it for gone
		rdb.ZAdd(ctx, "troupe:expiries", redis.Z{Score: 1, Member: id}).Err(),
	} {
		harness.OK(t, err)
	}
}

// recoveredBefore writes down n earlier recoveries.
func recoveredBefore(t *testing.T, rdb redis.UniversalClient, jid string, n int) {
	t.Helper()
	text := "["
	for i := range n {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"at":%q,"process":"old:1:%d","cause":"its lease ran out"}`, time.Now().UTC().Format(time.RFC3339Nano), i)
	}
	rdb.ZAdd(ctx, "troupe:recovered", redis.Z{Score: float64(time.Now().UnixMilli()), Member: jid})
	harness.OK(t, rdb.HSet(ctx, "troupe:recovered:log", jid, text+"]").Err())
}

func job(class, jid, args string) string {
	return fmt.Sprintf(`{"class":%q,"jid":%q,"args":%s,"queue":"default","retry":true}`, class, jid, args)
}

// onlyDefault has one queue, which the tests pause.
var onlyDefault = []actors.Capsule{{Queues: fetch.Strict{"default"}, Concurrency: 1}}

// Where recovered jobs go is the affair of their class, or of the daemon; what
// is moved is stamped, and what goes back keeps its bytes.
func TestRecoveredJobsAreRouted(t *testing.T) {
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	for name, c := range map[string]struct {
		class  troupe.Recovery
		daemon func(*troupe.Payload, int) troupe.Recovery
		poison actors.Poison
		key    string // where it ends
	}{
		"same":           {key: "queue:default"},
		"queue":          {class: troupe.Recovery{Queue: "big"}, key: "queue:big"},
		"delay":          {class: troupe.Recovery{Delay: time.Hour}, key: "schedule"},
		"dead":           {class: troupe.Recovery{Dead: true}, key: "dead"},
		"daemon decides": {class: troupe.Recovery{Dead: true}, daemon: func(*troupe.Payload, int) troupe.Recovery { return troupe.Recovery{Queue: "big"} }, key: "queue:big"},
		"policy panics":  {daemon: func(*troupe.Payload, int) troupe.Recovery { panic("policy") }, key: "queue:default"},
		"policy hangs":   {daemon: func(*troupe.Payload, int) troupe.Recovery { <-never; return troupe.Recovery{Dead: true} }, key: "queue:default"},
		"suspect":        {class: troupe.Recovery{Dead: true}, poison: actors.Poison{Suspect: 1}, key: "queue:default.suspects"},
		"no suspects":    {poison: actors.Poison{Recoveries: 1, Suspect: -1}, key: "dead"},
		"no limit":       {poison: actors.Poison{Recoveries: -1, Suspect: 1}, key: "queue:default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := testkit.Redis(t)
			var r troupe.Registry
			troupe.HandleClass(&r, "A", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }), troupe.Options{Recovery: c.class})
			raw := job("A", "j1", "[1.10]")
			orphan(t, rdb, raw, false)
			rdb.SAdd(ctx, "paused", "default") // nobody takes it from there
			k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: onlyDefault, Lease: time.Second, Poison: c.poison, Recovery: c.daemon})
			k.Await("the job has come to "+c.key, func() bool { return size(t, rdb, c.key) == 1 })
			harness.Equal(t, "jobs in progress", inProgress(t, rdb), 0)
			var got string
			if c.key == "schedule" || c.key == "dead" {
				got = rdb.ZRange(ctx, c.key, 0, 0).Val()[0]
			} else {
				got = rdb.LIndex(ctx, c.key, 0).Val()
			}
			if c.key == "queue:default" || c.key == "queue:default.suspects" {
				if got != raw {
					t.Errorf("went back as %s, was %s", got, raw)
				}
			} else if p, err := troupe.ParsePayload([]byte(got)); err != nil || string(p.Args()) != "[1.10]" || p.Tags()[0] != "recovered" {
				t.Errorf("moved as %s", got)
			} else if from, _ := p.String("recovered_from"); from != deadProcess {
				t.Errorf("recovered from %q", from)
			}
			counted := rdb.HExists(ctx, "troupe:recovered:log", "j1").Val()
			if want := c.key != "dead" && c.poison.Recoveries >= 0; counted != want {
				t.Errorf("counted: %v, want %v", counted, want)
			}
		})
	}
}

// The third death, as the suspect: dead, and everybody hears of it.
func TestAPoisonPillGoesToTheDeadSet(t *testing.T) {
	rdb := testkit.Redis(t)
	var mu sync.Mutex
	var events []event.Event
	var deaths []error
	log := new(harness.Buffer)
	orphan(t, rdb, job("A", "j1", "[]"), true)
	recoveredBefore(t, rdb, "j1", 2)
	orphan(t, rdb, job("A", "j2", "[]"), false) // ran beside it
	recoveredBefore(t, rdb, "j2", 5)
	rdb.SAdd(ctx, "paused", "default")
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: new(troupe.Registry), Capsules: onlyDefault, Lease: time.Second, Logger: zerolog.New(log),
		DeathHandlers: []actors.DeathHandler{func(_ context.Context, p *troupe.Payload, err error) {
			mu.Lock()
			defer mu.Unlock()
			deaths = append(deaths, fmt.Errorf("%s: %w", p.JID(), err))
		}},
		Subscribers: []func(event.Event){func(e event.Event) {
			if _, ok := e.(event.JobPoisoned); ok {
				mu.Lock()
				defer mu.Unlock()
				events = append(events, e)
			}
		}},
	})
	k.Await("one is dead, the other is a suspect", func() bool { // each is told of by a goroutine of its own
		mu.Lock()
		defer mu.Unlock()
		return size(t, rdb, "dead") == 1 && size(t, rdb, "queue:default.suspects") == 1 && len(deaths) == 1 && len(events) == 1 &&
			k.Stats().Suspected > 0
	})
	why, ok := errors.AsType[*troupe.RecoveredError](deaths[0])
	if !ok || !why.Poison || why.Times != 3 || why.Process != deadProcess {
		t.Errorf("death handlers: %v", deaths)
	}
	if e := events[0].(event.JobPoisoned); e.Job.JID != "j1" || len(e.Recoveries) != 3 || !e.Recoveries[2].Suspect {
		t.Errorf("event %+v", e)
	}
	if s := k.Stats(); s.Poisoned != 1 || s.Suspected != 1 || s.Rescued != 2 {
		t.Errorf("stats %+v", s)
	}
	if log.Count("a recovered job was moved to the dead set") != 1 {
		t.Error("no line in the log")
	}
}

// warden looks at what runs beside what.
type warden struct {
	mu       sync.Mutex
	running  map[string]int // by class
	most     int            // suspects at once
	total    int            // of everything at once
	beside   int            // times that another job ran when a suspect began
	ends     map[string]int
	suspects chan struct{} // lets suspects end
}

func (w *warden) perform(class string, d time.Duration) troupe.Handler {
	return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		w.mu.Lock()
		if class == "Suspect" && w.running["Plain"] > 0 {
			w.beside++
		}
		w.running[class]++
		w.most = max(w.most, w.running["Suspect"])
		w.total = max(w.total, w.running["Suspect"]+w.running["Plain"])
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.running[class]--
			w.ends[p.JID()]++
		}()
		if class == "Suspect" && w.suspects != nil {
			select {
			case <-w.suspects:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return nil
		}
		time.Sleep(d) // a job of some length, on a real Redis
		return nil
	})
}

func (w *warden) registry() *troupe.Registry {
	w.running, w.ends = map[string]int{}, map[string]int{}
	var r troupe.Registry
	troupe.HandleClass(&r, "Suspect", w.perform("Suspect", 30*time.Millisecond))
	troupe.HandleClass(&r, "Plain", w.perform("Plain", 10*time.Millisecond))
	return &r
}

func (w *warden) ended() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ends)
}

// Suspects of two capsules run one at a time, begin alone, within the capsule's
// concurrency, and are cleared when they end.
func TestSuspectsRunOneAtATime(t *testing.T) {
	rdb := testkit.Redis(t)
	w := &warden{}
	for i := range 5 {
		for _, queue := range []string{"default", "other"} {
			jid := fmt.Sprint(queue, i)
			rdb.LPush(ctx, "queue:"+queue+".suspects", job("Suspect", jid, "[]"))
			recoveredBefore(t, rdb, jid, 2)
		}
	}
	for i := range 800 { // one of the capsules is busy for longer than a suspect waits
		rdb.LPush(ctx, "queue:default", job("Plain", fmt.Sprint("p", i), "[]"))
		rdb.LPush(ctx, "queue:other", job("Plain", fmt.Sprint("q", i), "[]"))
	}
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: w.registry(), Lease: time.Second,
		Capsules: []actors.Capsule{{Concurrency: 4}, {Name: "other", Concurrency: 1, Queues: fetch.Strict{"other"}}},
	})
	k.Await("all have run", func() bool { return w.ended() == 1610 })
	k.Await("all are cleared", func() bool {
		return rdb.Exists(ctx, "troupe:recovered", "troupe:recovered:log").Val() == 0 && inProgress(t, rdb) == 0
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.most != 1 || w.beside != 0 || w.total > 5 {
		t.Errorf("%d suspects at once, %d times beside another job, %d jobs at once", w.most, w.beside, w.total)
	}
	for jid, n := range w.ends {
		if n != 1 {
			t.Errorf("%s ran %d times", jid, n)
		}
	}
}

// Many suspects beside jobs that run for long wait for these once, not each of them: half of 50, of a second
// each, begin within 50 s, 15 s of which are the pause of the rescuer.
func TestManySuspectsBesideALongJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := testkit.NewMemory(t).Client
		var mu sync.Mutex
		var waited []time.Duration
		began, release := time.Time{}, make(chan struct{})
		var r troupe.Registry
		troupe.HandleClass(&r, "Long", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-release; return nil }))
		troupe.HandleClass(&r, "Suspect", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
			mu.Lock()
			waited = append(waited, time.Since(began))
			mu.Unlock()
			time.Sleep(time.Second)
			return nil
		}))
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Concurrency: 10}}})
		for range 5 {
			k.PushClass("Long", nil)
		}
		k.Await("they run", func() bool { return k.Stats().Busy == 5 })
		began = time.Now()
		for i := range 50 {
			rdb.LPush(t.Context(), "queue:default.suspects", job("Suspect", fmt.Sprint(i), "[]"))
		}
		told := func() int { mu.Lock(); defer mu.Unlock(); return len(waited) }
		for told() < 50 && time.Since(began) < time.Hour {
			time.Sleep(time.Second)
		}
		close(release)
		mu.Lock()
		defer mu.Unlock()
		if len(waited) < 50 || waited[24] > 50*time.Second || waited[49] > 90*time.Second {
			t.Errorf("%d suspects have begun: half of them after %v, the last after %v", len(waited), waited[len(waited)/2], waited[len(waited)-1])
		}
		t.Logf("half after %v, the last after %v", waited[len(waited)/2], waited[len(waited)-1])
	})
}

// What is not cleared stays a suspect: at the deadline of a stop it goes back
// to where it was, and the next process runs it.
func TestSuspectAtTheEnd(t *testing.T) {
	rdb := testkit.Redis(t)
	raw := job("Suspect", "s", "[]")
	rdb.LPush(ctx, "queue:default.suspects", raw)
	recoveredBefore(t, rdb, "s", 2)
	w := &warden{suspects: make(chan struct{})}
	cfg := actors.Config{Redis: rdb, Registry: w.registry(), Lease: time.Second, Timeout: time.Millisecond}
	k := testkit.Start(t, cfg)
	k.Await("it runs", func() bool { return inProgress(t, rdb) == 1 && k.Stats().Busy == 1 })
	k.Stop()
	if got := rdb.LRange(ctx, "queue:default.suspects", 0, -1).Val(); len(got) != 1 || got[0] != raw {
		t.Errorf("suspects after the stop: %q", got)
	}
	if !rdb.HExists(ctx, "troupe:recovered:log", "s").Val() {
		t.Error("cleared without having ended")
	}
	next := &warden{}
	cfg.Registry = next.registry()
	k = testkit.Start(t, cfg)
	k.Await("it has run", func() bool { return next.ended() == 1 })
}

// A suspect that takes its time does not stop the process: after a while others
// begin beside it.
func TestLongSuspectDoesNotHoldTheProcess(t *testing.T) {
	rdb := testkit.Redis(t)
	rdb.LPush(ctx, "queue:default.suspects", job("Suspect", "s", "[]"), job("Suspect", "s2", "[]"))
	w := &warden{suspects: make(chan struct{})}
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: w.registry(), Lease: time.Second, Timeout: time.Second})
	k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
	rdb.LPush(ctx, "queue:default", job("Plain", "p", "[]"))
	k.Await("another job has run beside it", func() bool { return w.ended() == 1 })
	harness.Equal(t, "suspects wait, want the second one", size(t, rdb, "queue:default.suspects"), 1)
	close(w.suspects)
	k.Await("both have ended", func() bool { return w.ended() == 3 })
}

func TestConfigOfPoison(t *testing.T) {
	err := actors.Config{Poison: actors.Poison{Recoveries: -2, Suspect: -2, Within: -1}}.Validate()
	for _, field := range []string{"Poison.Recoveries", "Poison.Suspect", "Poison.Within"} {
		if !strings.Contains(fmt.Sprint(err), field) {
			t.Errorf("no fault of %s in %v", field, err)
		}
	}
}
