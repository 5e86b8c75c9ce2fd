package actors_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// relay is one that does as a test says.
type relay struct {
	mu    sync.Mutex
	runs  int
	stats actors.RelayStats
	do    func(ctx context.Context, run int) error
}

func (r *relay) Run(ctx context.Context) error {
	r.mu.Lock()
	r.runs++
	run := r.runs
	r.mu.Unlock()
	if err := r.do(ctx, run); err != nil {
		return err
	}
	r.become("leads", "")
	<-ctx.Done()
	r.become("", "")
	return nil
}

func (r *relay) Stats() actors.RelayStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

func (r *relay) become(state, err string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.State, r.stats.Error, r.stats.Since = state, err, time.Now()
}

func (r *relay) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs
}

// A relay in the tree is restarted when it panics, is run again when it returns, works on at quiet, and ends when the stop begins, not when
// the jobs have ended.
func TestARelayIsAnActor(t *testing.T) {
	r := &relay{do: func(_ context.Context, run int) error {
		switch run {
		case 1:
			panic("a driver")
		case 2:
			return errors.New("on purpose")
		}
		return nil
	}}
	var states harness.Buffer
	log := new(harness.Buffer)
	k := testkit.Start(t, actors.Config{
		Outboxes: []actors.Outbox{{Relay: r, Ready: true}}, Logger: zerolog.New(log),
		Subscribers: []func(event.Event){func(e event.Event) {
			if c, ok := e.(event.OutboxChanged); ok {
				_, _ = states.Write([]byte(c.Outbox + " " + c.State + "\n"))
			}
		}},
	})
	const path = "launcher/outbox-main"
	k.Await("it leads", func() bool { return k.Tree().Find(path).Note == "(leads)" })
	if n := k.Tree().Find(path); n.Role != "outbox" || n.Restarts != 1 || !strings.Contains(n.LastFailure, "a driver") || r.count() != 3 {
		t.Errorf("%+v after %d runs", n, r.count())
	}
	k.Await("the event", func() bool { return strings.Contains(states.String(), "main leads") })
	r.become("no_database", "refused on purpose")
	k.Await("it is not ready", func() bool {
		for _, reason := range k.Daemon.Health().Ready {
			if reason.Code == "outbox" && strings.Contains(reason.Text, path+" has been unable to work") {
				return true
			}
		}
		return false
	})
	if n := k.Tree().Find(path); n.Note != "(no database: refused on purpose)" || n.State != actors.StateRunning {
		t.Errorf("%+v", n)
	}
	k.Await("one line in the log", func() bool { return strings.Count(log.String(), "the database of the outbox is away") == 1 })
	r.become("leads", "")
	k.Await("the events", func() bool { return states.String() == "main leads\nmain no_database\nmain leads\n" })
	if m := k.Daemon.Metrics().Outboxes; len(m) != 1 || m[0].Outbox != "main" || m[0].State != "leads" {
		t.Errorf("%+v", m)
	}
	k.Daemon.Quiet()
	k.Await("it works on", func() bool {
		return k.Daemon.Stats().Quiet && r.Stats().State == "leads" && k.Tree().Find(path).State == actors.StateRunning
	})
}

// A relay gives its place away while jobs have time to end.
func TestARelayEndsWhenTheStopBegins(t *testing.T) {
	r := &relay{do: func(context.Context, int) error { return nil }}
	var registry troupe.Registry
	end := make(chan struct{})
	troupe.HandleClass(&registry, "Long", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-end; return nil }), troupe.Options{})
	k := testkit.Start(t, actors.Config{Registry: &registry, Outboxes: []actors.Outbox{{Name: "shop", Relay: r}}, Timeout: time.Minute})
	k.PushClass("Long", nil)
	k.Await("it runs", func() bool { return k.Stats().Busy == 1 })
	k.Await("it leads", func() bool { return r.Stats().State == "leads" })
	go func() { _, _ = k.Daemon.Stop(context.Background()) }()
	k.Await("it has ended", func() bool { return r.Stats().State == "" })
	k.Await("its actor has stopped", func() bool { return k.Tree().Find("launcher/outbox-shop").State == actors.StateStopped })
	if s := k.Daemon.Stats(); s.Busy != 1 {
		t.Errorf("%d jobs run", s.Busy)
	}
	close(end)
	<-k.Daemon.Done()
}

// What is wrong with outboxes is told with the field.
func TestOutboxesThatCannotBe(t *testing.T) {
	r := &relay{}
	err := actors.Config{
		Outboxes: []actors.Outbox{{Relay: r}, {Name: "main"}, {Name: "a b", Relay: r}},
		Capsules: []actors.Capsule{{Name: "outbox-main"}},
	}.Validate()
	for _, want := range []string{
		`Outboxes[1].Name is "main", expected a name that no other outbox has`, "Outboxes[1].Relay is nil, expected a *outbox.Relay",
		`Outboxes[2].Name is "a b", expected 1 to 100 letters`, `Capsules[0].Name is "outbox-main", expected a name that does not begin`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
