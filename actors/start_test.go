package actors_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

type urgent struct{}

func (urgent) Class() string            { return "Urgent" }
func (urgent) Defaults() troupe.Options { return troupe.Options{Queue: "critical"} }

// One warning names the classes whose queue nobody here takes from.
func TestAClassWhoseQueueNobodyTakesFromIsToldAtTheStart(t *testing.T) {
	var r troupe.Registry
	troupe.Handle(&r, func(context.Context, *troupe.Job[urgent]) error { return nil })
	troupe.HandleClass(&r, "Plain", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	const told = `"classes":["Urgent (queue critical)"],"message":"no capsule takes from the queues`
	run := func(shards ...actors.Config) int {
		log := new(harness.Buffer)
		var group []actors.Shard
		for i, cfg := range shards {
			cfg.Redis, cfg.Registry, cfg.Logger = testkit.NewMemory(t).Client, &r, zerolog.New(log)
			group = append(group, actors.Shard{Name: string(rune('a' + i)), Config: cfg})
		}
		g, err := actors.NewGroup(group...)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		return log.Count(told)
	}
	if n := run(actors.Config{}); n != 1 {
		t.Errorf("told %d times", n)
	}
	if n := run(actors.Config{}, actors.Config{Queues: actors.Strict{"low"}}); n != 1 {
		t.Errorf("two daemons of a process tell it %d times", n)
	}
	if n := run(actors.Config{Queues: actors.Strict{"default", "critical"}}); n != 0 {
		t.Errorf("its queue is taken from, and it is told %d times", n)
	}
	if n := run(actors.Config{}, actors.Config{Queues: actors.Strict{"critical"}}); n != 0 {
		t.Errorf("its queue is on another shard, and it is told %d times", n)
	}
}

// A context that ends during the start ends the daemon, and is the reason.
func TestAStartThatIsCancelled(t *testing.T) {
	rdb, _ := redistest.New(t)
	why := errors.New("the deploy was called off")
	cancelled := func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(t.Context()) }
	late, endLate := cancelled()
	for name, cfg := range map[string]actors.Config{
		"before":                {},
		"in a startup callback": {On: actors.Events{Startup: []func(context.Context) error{func(context.Context) error { endLate(why); return nil }}}},
	} {
		cfg.Redis, cfg.Registry = rdb, new(troupe.Registry)
		ctx := late
		if name == "before" {
			early, end := cancelled()
			end(why)
			ctx = early
		}
		d, err := actors.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Start(ctx); !errors.Is(err, why) {
			t.Errorf("%s: %v", name, err)
		}
		select {
		case <-d.Done():
		default:
			t.Errorf("%s: the daemon has not ended", name)
		}
		if err := actors.Run(ctx, cfg); err != nil {
			t.Errorf("%s: Run: %v", name, err)
		}
	}
	if n := rdb.SCard(t.Context(), "processes").Val(); n != 0 {
		t.Errorf("%d processes are on the list", n)
	}
}

func TestMiddlewareThatMakesNothingIsAFaultOfTheConfiguration(t *testing.T) {
	rdb, _ := redistest.New(t)
	var r troupe.Registry
	troupe.HandleClass(&r, "Plain", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
	none := func(troupe.Handler) troupe.Handler { return nil }
	for want, cfg := range map[string]actors.Config{
		"config: Middleware[0] is nil, expected a troupe.Middleware":                             {Middleware: []troupe.Middleware{nil}},
		"config: Capsules[0].Middleware[0] is nil, expected a troupe.Middleware":                 {Capsules: []actors.Capsule{{Middleware: []troupe.Middleware{nil}}}},
		"config: ClientMiddleware[0] is nil, expected a client.Middleware":                       {ClientMiddleware: []client.Middleware{nil}},
		`config: capsule default: class "Plain": Middleware[0] returned nil, expected a Handler`: {Middleware: []troupe.Middleware{none}},
		"config: Client: WithMiddleware[0]: got a Middleware that returns nil, want one that returns a PushFunc": {
			ClientMiddleware: []client.Middleware{func(client.PushFunc) client.PushFunc { return nil }},
		},
	} {
		cfg.Redis, cfg.Registry = rdb, &r
		if _, err := actors.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Mistakes that are no faults are told at the start, once each.
func TestWhatIsOddIsToldAtTheStart(t *testing.T) {
	handled := func(class string) *troupe.Registry {
		var r troupe.Registry
		troupe.HandleClass(&r, class, troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
		return &r
	}
	const (
		untagged = "Periodic without PeriodicTag"
		untaken  = `"periodic":["n (queue low)"],"message":"no capsule takes from the queues to which these periodic jobs`
		unknown  = `"periodic":["n (class Nobody)"],"message":"the classes of these periodic jobs have no handler`
		empty    = `"capsules":["default"],"message":"the registry has no handlers`
	)
	entry := func(class, queue string) []troupe.Periodic {
		return []troupe.Periodic{{Name: "n", Cron: "@yearly", Class: class, Queue: queue}}
	}
	for name, tt := range map[string]struct {
		cfg  actors.Config
		want []string
	}{
		"no tag":           {actors.Config{Registry: handled("C"), Periodic: entry("C", "")}, []string{untagged}},
		"a tag":            {actors.Config{Registry: handled("C"), Periodic: entry("C", ""), PeriodicTag: "app"}, nil},
		"another queue":    {actors.Config{Registry: handled("C"), Periodic: entry("C", "low"), PeriodicTag: "app"}, []string{untaken}},
		"a queue of Args":  {actors.Config{Registry: handled("C"), Periodic: []troupe.Periodic{{Name: "n", Cron: "@yearly", Args: low{}}}, PeriodicTag: "app"}, []string{untaken}},
		"its queue":        {actors.Config{Registry: handled("C"), Periodic: entry("C", "low"), PeriodicTag: "app", Queues: actors.Strict{"low"}}, nil},
		"no handler":       {actors.Config{Registry: handled("C"), Periodic: entry("Nobody", ""), PeriodicTag: "app"}, []string{unknown}},
		"elsewhere":        {actors.Config{Registry: handled("C"), Periodic: entry("Nobody", "low"), PeriodicTag: "app"}, []string{untaken}},
		"a handler of all": {actors.Config{Registry: handled(troupe.AnyClass), Periodic: entry("Nobody", ""), PeriodicTag: "app"}, nil},
		"left to others": {actors.Config{
			Registry: handled("C"), Periodic: entry("Nobody", ""), PeriodicTag: "app", Capsules: []actors.Capsule{{Unknown: actors.Unknown{Leave: true}}},
		}, nil},
		"of Active Job": {actors.Config{
			Registry: handled("C"), PeriodicTag: "app", Periodic: []troupe.Periodic{{Name: "n", Cron: "@yearly", Class: "Nobody", ActiveJob: true}},
		}, nil},
		"no handlers":             {actors.Config{Registry: new(troupe.Registry)}, []string{empty}},
		"no handlers, and a way":  {actors.Config{Registry: new(troupe.Registry), Capsules: []actors.Capsule{{Unknown: actors.Unknown{Queue: "ruby"}}}}, nil},
		"no handlers, one's tick": {actors.Config{Registry: new(troupe.Registry), Periodic: entry("Nobody", "")}, []string{empty, unknown, untagged}},
	} {
		log := new(harness.Buffer)
		tt.cfg.Redis, tt.cfg.Logger = testkit.NewMemory(t).Client, zerolog.New(log)
		d, err := actors.New(tt.cfg)
		harness.OK(t, err)
		harness.OK(t, d.Start(ctx))
		_, err = d.Stop(ctx)
		harness.OK(t, err)
		for _, text := range []string{untagged, untaken, unknown, empty} {
			want := 0
			if slices.Contains(tt.want, text) {
				want = 1
			}
			if n := log.Count(text); n != want {
				t.Errorf("%s: told %d times, want %d: %s", name, n, want, text)
			}
		}
	}
}

type low struct{}

func (low) Class() string            { return "C" }
func (low) Defaults() troupe.Options { return troupe.Options{Queue: "low"} }
