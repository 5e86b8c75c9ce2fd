package actors_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/wire/goworkers"
	"github.com/troupehq/troupe/wire/laravel"
)

// ran is a registry of one class that notes the jids of its runs.
type ran struct {
	troupe.Registry
	mu   sync.Mutex
	jids map[string]bool
}

func (r *ran) handler() troupe.Handler {
	return troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.jids == nil {
			r.jids = map[string]bool{}
		}
		r.jids[p.JID()] = true
		return nil
	})
}

func (r *ran) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.jids)
}

// A job whose class has no handler is in the other queue in the step that ends its run, with the
// fields of a move changed and all others as they were.
func TestAJobWithoutAHandlerIsHandedOver(t *testing.T) {
	const raw = `{"class":"Ruby::Only","args":[1.50, {"ä":"ä"}],"jid":"m1","queue":"default","retry":false,"x":1,"enqueued_at":5.5}`
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			log := new(harness.Buffer)
			var r ran
			troupe.HandleClass(&r.Registry, "Mine", r.handler())
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: &r.Registry, Logger: zerolog.New(log),
				Capsules: []actors.Capsule{{Concurrency: 2, Fetch: factory, Unknown: actors.Unknown{Queue: "default_ruby"}}},
				ErrorHandlers: []actors.ErrorHandler{func(_ context.Context, err error, _ actors.ErrorContext) {
					t.Errorf("an error handler was told of %v", err)
				}},
			}, testkit.Strict())
			k.Expect(testkit.Events(func(e event.JobHandedOver) bool { return e.To == "default_ruby" && e.Job.JID == "m1" && e.First }).Of("Ruby::Only").Times(1), func() {
				if err := rdb.LPush(ctx, "queue:default", raw).Err(); err != nil {
					t.Fatal(err)
				}
			})
			for range 20 {
				k.PushClass("Ruby::Only", nil)
				k.PushClass("Mine", nil)
			}
			k.Await("all settled", func() bool { return rdb.LLen(ctx, "queue:default_ruby").Val() == 21 && r.count() == 20 && k.Settled() })
			moved := rdb.LIndex(ctx, "queue:default_ruby", -1).Val()
			text, _, _ := strings.Cut(moved, `"enqueued_at":`)
			want, _, _ := strings.Cut(strings.Replace(raw, `"queue":"default"`, `"queue":"default_ruby"`, 1), `"enqueued_at":`)
			harness.Equal(t, "handed over", text, want)
			if s := k.Stats(); s.Processed != 20 || s.Failed != 0 || !rdb.SIsMember(ctx, "queues", "default_ruby").Val() {
				t.Errorf("counted as run: %+v, queues %q", s, rdb.SMembers(ctx, "queues").Val())
			}
			harness.Equal(t, "runs were handed over", classOf(k.Metrics(), "").Runs["handed"], 21)
			k.Stop()
			if n := inProgress(t, rdb); n != 0 || size(t, rdb, "queue:default")+size(t, rdb, "retry")+size(t, rdb, "dead") != 0 {
				t.Errorf("%d jobs are still in progress, or in another place", n)
			}
			if log.Count(`"outcome":"handed"`) != 21 || log.Count("no handler for this class: its jobs are handed over") != 1 || log.Count(`"level":"error"`) != 0 {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
	t.Run("cluster", func(t *testing.T) {
		rdb, _ := redistest.NewCluster(t)
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: new(troupe.Registry), Capsules: []actors.Capsule{{Unknown: actors.Unknown{Queue: "other"}}}})
		for range 20 {
			k.PushClass("Ruby::Only", nil)
		}
		k.Await("all are handed over", func() bool { return rdb.LLen(ctx, "queue:other").Val() == 20 && k.Settled() })
		k.Stop()
		harness.Equal(t, "jobs", rdb.LLen(ctx, "queue:default").Val()+rdb.ZCard(ctx, "retry").Val()+rdb.LLen(ctx, "queue:other").Val(), 20)
	})
	t.Run("go-workers", func(t *testing.T) {
		rdb := testkit.Redis(t)
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: new(troupe.Registry), Capsules: []actors.Capsule{{
			Wire: goworkers.New(goworkers.Options{Namespace: "ns"}), Unknown: actors.Unknown{Queue: "other"},
		}}})
		const raw = `{"queue":"default","class":"Add","args":[1,2],"jid":"g1","enqueued_at":5.5}`
		if err := rdb.LPush(ctx, "ns:queue:default", raw).Err(); err != nil {
			t.Fatal(err)
		}
		k.Await("it is handed over", func() bool { return rdb.LLen(ctx, "ns:queue:other").Val() == 1 && k.Settled() })
		text, _, _ := strings.Cut(rdb.LIndex(ctx, "ns:queue:other", 0).Val(), `"enqueued_at":`)
		harness.Equal(t, "handed over", text, `{"queue":"other","class":"Add","args":[1,2],"jid":"g1",`)
	})
	// nobody could run these
	t.Run("no class", func(t *testing.T) {
		rdb := testkit.Redis(t)
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: new(troupe.Registry), Capsules: []actors.Capsule{{Unknown: actors.Unknown{Queue: "other"}}}})
		if err := rdb.LPush(ctx, "queue:default", `{"args":[],"jid":"n1"}`, `not a job`, `{"class":"Troupe::NotAJob","args":["[1]"],"jid":"n2"}`).Err(); err != nil {
			t.Fatal(err)
		}
		k.Await("all are dead", func() bool { return rdb.ZCard(ctx, "dead").Val() == 3 && k.Settled() })
		harness.Equal(t, "handed over", rdb.LLen(ctx, "queue:other").Val(), 0)
	})
}

// A job that is left is in its queue, byte for byte, for whoever has a handler; the processors that meet
// it do not spin.
func TestAJobWithoutAHandlerIsLeft(t *testing.T) {
	for name, factory := range fetchers {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			log := new(harness.Buffer)
			var r, other ran
			troupe.HandleClass(&r.Registry, "Mine", r.handler())
			troupe.HandleClass(&other.Registry, "Theirs", other.handler())
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: &r.Registry, Logger: zerolog.New(log),
				Capsules: []actors.Capsule{{Concurrency: 2, Fetch: factory, Unknown: actors.Unknown{Leave: true}}},
			}, testkit.Strict())
			const raw = `{"class":"Theirs","args":[1.50],"jid":"l1","enqueued_at":5.5}`
			k.Expect(testkit.Events(func(e event.JobLeft) bool { return e.First }).Of("Theirs").Times(1), func() {
				if err := rdb.LPush(ctx, "queue:default", raw).Err(); err != nil {
					t.Fatal(err)
				}
			})
			k.Await("it was left again", func() bool { return classOf(k.Metrics(), "").Runs["left"] >= 3 })
			k.PushClass("Mine", nil)
			k.Await("another job runs", func() bool { return r.count() == 1 })
			k.Await("it is in its queue", func() bool {
				jobs := rdb.LRange(ctx, "queue:default", 0, -1).Val()
				return len(jobs) == 1 && jobs[0] == raw
			})
			if s := k.Stats(); s.Processed != 1 || s.Failed != 0 {
				t.Errorf("counted as run: %+v", s)
			}
			k.Stop()
			harness.Equal(t, "left", rdb.LIndex(ctx, "queue:default", 0).Val(), raw)
			harness.Equal(t, "warnings", log.Count("its jobs are left at the end of their queue"), 1)
			k = testkit.Start(t, actors.Config{Redis: rdb, Registry: &other.Registry, Capsules: []actors.Capsule{{Fetch: factory}}})
			k.Await("the other process runs it", func() bool { return other.count() == 1 })
		})
	}
}

// In virtual time the pause can be counted: two processors leave two jobs a second.
func TestProcessorsThatLeaveJobsPause(t *testing.T) {
	testkit.Virtual(t, actors.Config{Registry: new(troupe.Registry), Capsules: []actors.Capsule{{Concurrency: 2, Unknown: actors.Unknown{Leave: true}}}}, func(t *testing.T, kit *testkit.Kit) {
		begun := time.Now()
		for range 10 {
			kit.PushClass("Theirs", nil)
		}
		kit.Await("many were left", func() bool { return classOf(kit.Metrics(), "").Runs["left"] >= 20 })
		kit.Stop()
		if took := time.Since(begun); took < 8*time.Second {
			t.Errorf("%d jobs were left within %v", classOf(kit.Metrics(), "").Runs["left"], took)
		}
	})
}

// The share of a class is run here, the same jobs at each run, and the others are handed over.
func TestAShareOfAClassIsRun(t *testing.T) {
	for name, at := range map[string]struct {
		options troupe.Options
		unknown actors.Unknown
	}{
		"to the queue of unknown classes": {troupe.Options{Take: troupe.Percent(30)}, actors.Unknown{Queue: "rest"}},
		"to its own":                      {troupe.Options{Take: troupe.Percent(30), RestQueue: "rest"}, actors.Unknown{Queue: "other"}},
		"none":                            {troupe.Options{Take: troupe.Percent(0), RestQueue: "rest"}, actors.Unknown{}},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			log := new(harness.Buffer)
			var r ran
			troupe.HandleClass(&r.Registry, "Both", r.handler(), at.options)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: &r.Registry, Logger: zerolog.New(log),
				Capsules: []actors.Capsule{{Unknown: at.unknown}},
			}, testkit.Strict())
			want := 0
			const jobs = 400
			for i := range jobs {
				jid := fmt.Sprintf("%024x", i*7919)
				if at.options.Take.Has(jid) {
					want++
				}
				if err := rdb.LPush(ctx, "queue:default", fmt.Sprintf(`{"class":"Both","args":[],"queue":"default","jid":"%s"}`, jid)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			k.Await("all settled", func() bool {
				return r.count() == want && int(rdb.LLen(ctx, "queue:rest").Val()) == jobs-want && k.Settled()
			})
			if percent, _ := at.options.Take.Percent(); percent > 0 && (want < 80 || want > 160) {
				t.Errorf("%d of %d jobs are %v percent", want, jobs, percent)
			}
			for _, raw := range rdb.LRange(ctx, "queue:rest", 0, -1).Val() {
				var job struct{ JID, Queue string }
				if err := json.Unmarshal([]byte(raw), &job); err != nil || at.options.Take.Has(job.JID) || job.Queue != "rest" {
					t.Errorf("handed over: %s, %v", raw, err)
				}
			}
			harness.Equal(t, "handed over", classOf(k.Metrics(), "Both").Runs["handed"], uint64(jobs-want))
			harness.Equal(t, "warnings", log.Count("a share of the jobs of this class is run here"), 1)
		})
	}
}

// An alias and a fallback are handlers: of jobs whose bytes keep their class.
func TestAliasAndFallbackRunJobs(t *testing.T) {
	rdb := testkit.Redis(t)
	log := new(harness.Buffer)
	var r troupe.Registry
	var mu sync.Mutex
	seen := map[string]string{}
	note := func(name string) troupe.Handler {
		return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			info, _ := troupe.JobInfoFrom(ctx)
			mu.Lock()
			defer mu.Unlock()
			seen[name+" "+p.Class()+" "+info.Class] = p.JID()
			return fmt.Errorf("on purpose")
		})
	}
	troupe.HandleClass(&r, "Billing::Charge", note("new"), troupe.Options{Retries: troupe.Times(7)})
	r.Alias("ChargeJob", "Billing::Charge")
	troupe.HandleClass(&r, troupe.AnyClass, note("any"))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Logger: zerolog.New(log)})
	for _, class := range []string{"Billing::Charge", "ChargeJob", "Else"} {
		k.PushClass(class, nil)
	}
	k.Await("all have failed", func() bool { return rdb.ZCard(ctx, "retry").Val() == 3 && k.Settled() })
	k.Stop()
	for _, want := range []string{"new Billing::Charge Billing::Charge", "new ChargeJob ChargeJob", "any Else Else"} {
		if seen[want] == "" {
			t.Errorf("no run %q of %q", want, seen)
		}
	}
	for _, raw := range rdb.ZRange(ctx, "retry", 0, -1).Val() {
		if !strings.Contains(raw, `"error_message":"on purpose"`) {
			t.Errorf("in retry: %s", raw)
		}
	}
	harness.Equal(t, "runs of the class", classOf(k.Metrics(), "Billing::Charge").Runs["error"], 2)
	harness.Equal(t, "retries of the class", classOf(k.Metrics(), "Billing::Charge").Moves["retried"], 2)
	harness.Equal(t, "runs of the fallback", classOf(k.Metrics(), troupe.AnyClass).Runs["error"], 1)
	if log.Count(`"class":"ChargeJob","queue":"default","capsule":"default","handler":"Billing::Charge"`) != 1 || log.Count(`"handler":"*"`) != 1 {
		t.Errorf("the log:\n%s", log)
	}
	page := map[string]bool{}
	for _, key := range rdb.Keys(ctx, "j|*").Val() {
		for field := range rdb.HGetAll(ctx, key).Val() {
			page[field] = true
		}
	}
	if !page["ChargeJob|f"] || !page["Else|f"] || page["*|f"] {
		t.Errorf("Sidekiq's metrics have %v", page)
	}
}

func TestWhereJobsCannotGoIsRefusedAtTheStart(t *testing.T) {
	handler := troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil })
	take := func(options troupe.Options) *troupe.Registry {
		var r troupe.Registry
		troupe.HandleClass(&r, "Both", handler, options)
		return &r
	}
	fallback := new(troupe.Registry)
	troupe.HandleClass(fallback, troupe.AnyClass, handler)
	two := func(u actors.Unknown) []actors.Capsule {
		return []actors.Capsule{{Unknown: u}, {Name: "two", Queues: actors.Strict{"other"}}}
	}
	rdb := testkit.Redis(t)
	php := harness.Must(laravel.New(laravel.Options{}))(t)
	for want, c := range map[string]actors.Config{
		`config: Capsules[0].Unknown.Queue is "other", expected a queue that this daemon does not take from: capsule two does, and jobs would circle`: {Capsules: two(actors.Unknown{Queue: "other"})},
		`config: Capsules[0].Unknown.Queue is "default", expected a queue that this daemon does not take from: capsule default does`:                  {Capsules: two(actors.Unknown{Queue: "default"})},
		`config: Capsules[0].Unknown.Queue: move to the queue "a.suspects": expected a name`:                                                          {Capsules: two(actors.Unknown{Queue: "a.suspects"})},
		`expected one of Queue and Leave`:                                                                                                         {Capsules: two(actors.Unknown{Queue: "a", Leave: true})},
		`expected none, as there is a handler of troupe.AnyClass`:                                                                                 {Registry: fallback, Capsules: two(actors.Unknown{Leave: true})},
		`config: Capsules[0].Unknown.Queue: move to the queue "a": jobs of this system stay in their queue`:                                       {Capsules: []actors.Capsule{{Wire: php, Unknown: actors.Unknown{Queue: "a"}}}},
		`expected none with laravel, where each fetch of a job counts as an attempt`:                                                              {Capsules: []actors.Capsule{{Wire: php, Unknown: actors.Unknown{Leave: true}}}},
		`Take of class "Both" is 10 percent, expected none beside a capsule (default) of laravel`:                                                 {Registry: take(troupe.Options{Take: troupe.Percent(10), RestQueue: "a"}), Capsules: []actors.Capsule{{Wire: php}}},
		`config: Capsules[0].Unknown.Queue is empty, expected a queue for the jobs of class "Both" that Take leaves, or a RestQueue of the class`: {Registry: take(troupe.Options{Take: troupe.Percent(10)}), Capsules: two(actors.Unknown{})},
		`config: RestQueue of class "Both" is "other", expected a queue that this daemon does not take from`:                                      {Registry: take(troupe.Options{Take: troupe.Percent(10), RestQueue: "other"}), Capsules: two(actors.Unknown{})},
	} {
		if c.Redis = rdb; c.Registry == nil {
			c.Registry = new(troupe.Registry)
		}
		_, err := actors.New(c)
		harness.ErrorHas(t, "error", err, want)
		if err != nil && strings.Count(err.Error(), "config:") != strings.Count(err.Error(), "\n")+1 {
			t.Errorf("config: is not said once a line:\n%v", err)
		}
	}
	// A queue of the same name in another system is another one.
	harness.OK(t, actors.Config{Redis: rdb, Registry: new(troupe.Registry), Capsules: []actors.Capsule{
		{Unknown: actors.Unknown{Queue: "go"}}, {Name: "two", Queues: actors.Strict{"go"}, Wire: goworkers.New(goworkers.Options{Namespace: "ns"})},
	}}.Validate())
}

// A queue that jobs are handed over to cannot be added to those that are taken from.
func TestConfigureRefusesAQueueThatJobsGoTo(t *testing.T) {
	k := testkit.Start(t, actors.Config{Redis: testkit.Redis(t), Registry: new(troupe.Registry), Capsules: []actors.Capsule{{Unknown: actors.Unknown{Queue: "ruby"}}}})
	err := k.Daemon.Configure(ctx, actors.Capsule{Queues: actors.Strict{"default", "ruby"}})
	harness.ErrorHas(t, "error", err, `configure: capsule default: Unknown.Queue is "ruby", expected a queue that this daemon does not take from`)
	harness.OK(t, k.Daemon.Configure(ctx, actors.Capsule{Queues: actors.Strict{"default", "low"}}))
}
