package actors_test

import (
	"context"
	"errors"
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
