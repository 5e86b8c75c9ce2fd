package testkit

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/test/harness"
)

// startTime bounds the wait of Start for the whole tree, which a test may keep from
// starting.
const startTime = 5 * time.Second

// Kit is a running daemon with what a test needs beside it. Methods that may
// fail the test belong to the test's own goroutine, as t.FailNow does.
type Kit struct {
	*actors.Daemon
	Redis  redis.UniversalClient // the database of the daemon
	Client *client.Client        // pushes into it

	tb      testing.TB
	log     *eventLog
	gates   *gates
	strict  bool
	foreign bool   // some jobs are not where those of Sidekiq are
	before  string // what there was to see when the stop began; of a strict kit
	shown   bool   // a failure has shown it
}

// Option changes what Start does.
type Option func(*settings)

type settings struct{ strict bool }

// Start starts a daemon, waits until its whole tree runs, and stops it at the end
// of the test. A nil cfg.Redis means a NewMemory of its own, a nil cfg.Registry an
// empty one; an unset logger writes to the test's log.
func Start(tb testing.TB, cfg actors.Config, opts ...Option) *Kit {
	tb.Helper()
	var set settings
	for _, opt := range opts {
		opt(&set)
	}
	if set.strict {
		checkLeaks(tb) // before anything that is cleaned up
	}
	if cfg.Redis == nil {
		cfg.Redis = NewMemory(tb).Client
	}
	if cfg.Registry == nil {
		cfg.Registry = new(troupe.Registry)
	}
	if reflect.ValueOf(cfg.Logger).IsZero() {
		cfg.Logger = zerolog.New(shortStacks{newTestLog(tb)}).Level(zerolog.WarnLevel)
	}
	k := &Kit{Redis: cfg.Redis, tb: tb, log: newEventLog(), gates: newGates(), strict: set.strict}
	k.foreign = slices.ContainsFunc(cfg.Capsules, func(c actors.Capsule) bool { return c.Wire != nil || c.Fetch != nil })
	if _, measuring := tb.(*testing.B); !measuring || set.strict {
		cfg.Subscribers = append(slices.Clip(cfg.Subscribers), k.log.record)
	}
	d, err := actors.New(cfg)
	if err != nil {
		tb.Fatalf("new daemon: %v", err)
	}
	k.Daemon = d
	k.Client = client.New(cfg.Redis, client.WithMiddleware(cfg.ClientMiddleware...), client.WithTimestamps(cfg.Timestamps), client.WithEncryption(cfg.Encryption))
	if err := d.Start(context.Background()); err != nil {
		tb.Fatalf("start the daemon: %v", err)
	}
	if set.strict {
		k.log.watchDeadLetters(d.Faults().Actors())
	}
	tb.Cleanup(func() {
		k.remember() // before the gates open
		k.openGates()
		k.Stop()
		if inBubble() {
			time.Sleep(bubbleTime)
		} else {
			time.Sleep(50 * time.Millisecond) // the actor library's dead-letter window
		}
		if set.strict {
			k.checkStrict()
		}
	})
	want := actorsOf(cfg)
	harness.Within(startTime, func() bool { return k.Err() != nil || k.up() >= want })
	return k
}

// Virtual runs f in a testing/synctest bubble with a running daemon, as Start makes
// it: with a Redis in memory, unless cfg has one of the bubble. The time of the
// bubble is virtual, so that retries, schedules and the 25 s of a stop take
// milliseconds. f must use its own t, that of the bubble. Handlers that push get
// their client from k.Client, in f.
func Virtual(t *testing.T, cfg actors.Config, f func(t *testing.T, k *Kit), opts ...Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f(t, Start(t, cfg, opts...))
	})
}

// actorsOf counts the actors of a daemon.
func actorsOf(cfg actors.Config) int {
	n := 4 // launcher, heartbeat, rescuer, poller
	for _, c := range cfg.Capsules {
		n += 2 + cmp.Or(c.Concurrency, limits.Concurrency)
	}
	if len(cfg.Capsules) == 0 {
		n += 2 + cmp.Or(cfg.Concurrency, limits.Concurrency)
	}
	return n
}

// up counts the actors that have begun to run.
func (k *Kit) up() (n int) {
	for _, a := range k.Tree() {
		if a.State != actors.StateStarting {
			n++
		}
	}
	return n
}

// Stop runs the stop protocol and returns its report; a further call returns the same one.
func (k *Kit) Stop() actors.DrainReport {
	k.tb.Helper()
	k.remember()
	r, err := k.Daemon.Stop(context.Background())
	if err != nil {
		k.tb.Errorf("stop: %v", err)
	}
	return r
}

// Push enqueues a job and returns its jid.
func (k *Kit) Push(args troupe.Args, opts ...client.Option) string {
	k.tb.Helper()
	jid, err := k.Client.Push(context.Background(), args, opts...)
	if err != nil {
		k.tb.Fatalf("push %s: %v", args.Class(), err)
	}
	return jid
}

// PushClass enqueues a job by class name and returns its jid.
func (k *Kit) PushClass(class string, args []any, opts ...client.Option) string {
	k.tb.Helper()
	jid, err := k.Client.PushClass(context.Background(), class, args, opts...)
	if err != nil {
		k.tb.Fatalf("push %s: %v", class, err)
	}
	return jid
}

// remember keeps what a strict kit may have to show: after the stop everything
// is stopped.
func (k *Kit) remember() {
	if k.strict && k.before == "" {
		k.before = k.describe()
	}
}

// show is describe for a failure.
func (k *Kit) show() string {
	k.shown = true
	return k.describe()
}

// describe is what a failing test shows.
func (k *Kit) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%+v\n%s", k.Stats(), k.Tree())
	if g := k.gates.String(); g != "" {
		fmt.Fprintf(&b, "%s\n", g)
	}
	if last := k.log.last(20); len(last) > 0 {
		b.WriteString("the last events:\n")
		for _, e := range last {
			fmt.Fprintf(&b, "  %s\n", formatEvent(e))
		}
	}
	return b.String()
}
