package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/testkit"
)

// start starts a daemon in this process.
func (s *site) kit(cfg actors.Config) *testkit.Kit {
	s.t.Helper()
	rdb := redis.NewClient(s.rdb.Options()) // it ends after the daemon
	s.t.Cleanup(func() { _ = rdb.Close() })
	cfg.Redis = rdb
	return testkit.Start(s.t, cfg)
}

// Crashes in a daemon stand on open pages, of the process and of the fleet, within two seconds: that
// is what the dashboard promises. Of three the middle one counts, since a machine may be busy for a moment.
func TestCrashIsSeen(t *testing.T) {
	s := start(t)
	k := s.kit(actors.Config{Concurrency: 3})
	crashes := make(chan time.Time, 1)
	t.Cleanup(k.Subscribe(func(e event.Event) {
		if c, ok := e.(event.ActorCrashed); ok {
			crashes <- c.At
		}
	}))
	process, all := open(t, s.base), open(t, s.base)
	process.reloadsOn("/tree/"+k.Identity(), "poller", "3 idle")
	all.reloadsOn("/tree", "all run")
	var took, tookAll []time.Duration
	for i, actor := range []string{"poller", "rescuer", "default/processor-1"} {
		text := fmt.Sprintf("out of luck, part %d", i)
		seen := make(chan time.Time, 1)
		go func() {
			defer close(seen)
			seen <- all.awaitText(actor + ": " + text)
		}()
		k.Crash("launcher/"+actor, errors.New(text))
		crash := <-crashes
		took = append(took, process.awaitText(text).Sub(crash))
		tookAll = append(tookAll, (<-seen).Sub(crash))
		process.awaitText("crashed: " + text + "; restarted by the strategy of launcher")
		all.awaitText(fmt.Sprintf("+%d in 1m", i+1))
	}
	t.Logf("the process: %v; the fleet: %v", took, tookAll)
	for _, three := range [][]time.Duration{took, tookAll} {
		slices.Sort(three)
		if three[1] > 2*time.Second {
			t.Errorf("a page says it %s after the crash", three[1])
		}
	}
}

// Many processes whose actors crash again and again for one reason are one banner with one cause.
func TestStorm(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := open(t, s.base)
	b.visit("/tree")
	b.says("No process runs")
	for p := range 3 {
		k := s.kit(actors.Config{Concurrency: 8})
		for i := range 6 {
			k.Crash(fmt.Sprintf("launcher/default/processor-%d", i), fmt.Errorf("card %d was declined", p*100+i))
		}
	}
	b.awaitText("The same failure in 3 of 3 processes since", "18 restarts within a minute", "was declined")
	if n := b.eval(`document.querySelectorAll(".banner .problems > li").length`); n != "1" {
		t.Errorf("%s banners:\n%s", n, b.text())
	}
	if n := b.eval(`document.querySelectorAll("tr.troubled").length`); n != "3" {
		t.Errorf("%s processes are in trouble", n)
	}
}

// ignores is a handler that does not look at its context.
func ignores(until chan struct{}) troupe.Handler {
	return troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-until; return nil })
}

// A job that does not end although it was cancelled shows where it stands.
func TestUnresponsive(t *testing.T) {
	t.Parallel()
	s := start(t)
	release := make(chan struct{})
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Reports::Monthly", ignores(release))
	k := s.kit(actors.Config{Registry: &jobs, Concurrency: 2, Grace: 20 * time.Millisecond})
	t.Cleanup(func() { close(release) })
	jid, err := client.New(s.rdb).PushClass(t.Context(), "Reports::Monthly", []any{1})
	if err != nil {
		t.Fatal(err)
	}
	b := open(t, s.base)
	b.reloadsOn("/running", jid)
	b.button("main", "Cancel")
	b.awaitText("unresponsive", "cancelled by an operator")
	b.visit("/tree/" + k.Identity())
	b.awaitText("An unresponsive job", "Reports::Monthly", "It does not end, although its context was cancelled")
	b.do(b.press("section[contains(@class, 'unresponsive')]", "Stack"))
	b.says("ignores.func", "fleet_test.go")
}

// A process that was away for longer than its lease says what it has lost.
func TestFence(t *testing.T) {
	t.Parallel()
	s := start(t)
	p, id := s.daemon("worker-1", leaseEnv+"=2s")
	if _, err := client.New(s.rdb).PushClass(t.Context(), "Held", []any{1}, client.Queue("held")); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.base)
	b.reloadsOn("/running", "Held")
	b.reloadsOn("/tree/"+id, "1 busy")
	p.Pause()
	_, rescuer := s.daemon("worker-2", leaseEnv+"=2s")
	other := open(t, s.base)
	other.reloadsOn("/running", rescuer) // it has the job
	p.Resume()
	b.awaitText("Fenced", "another process took 1 job", "It goes on by itself")
	b.visit("/tree")
	b.says("fenced 1×")
}

// A process that was killed is a ghost, whose job goes back in so many seconds, and then who has
// put it back is told.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := start(t)
	p, id := s.daemon("worker-1")
	if _, err := client.New(s.rdb).PushClass(t.Context(), "Held", []any{1}, client.Queue("held")); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.base)
	b.reloadsOn("/running", "Held")
	b.reloadsOn("/tree", id, "1 busy")
	p.Kill()
	_, rescuer := s.daemon("worker-2")
	b.awaitText(id, "silent", "Last beat", "1 job goes back in ")
	if !b.is(`document.querySelector("tr.troubled .ghost")`) {
		t.Error("it is no ghost")
	}
	b.awaitText("rescued by " + rescuer)
	b.visit("/events?kind=rescued")
	b.says("1 jobs of dead processes put back: "+id, strings.Split(rescuer, ":")[0])
}
