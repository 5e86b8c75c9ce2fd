package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
)

// awaitTime is how long Await waits.
const awaitTime = time.Minute

// Kit is a running daemon with what a test needs beside it.
type Kit struct {
	*actors.Daemon
	Redis  redis.UniversalClient // the database of the daemon
	Client *client.Client        // pushes into it

	tb testing.TB
}

// Start starts a daemon and stops it at the end of the test. A nil cfg.Redis
// means a Memory of its own, a nil cfg.Registry an empty one; an unset logger
// writes to the test's log.
func Start(tb testing.TB, cfg actors.Config) *Kit {
	tb.Helper()
	if cfg.Redis == nil {
		cfg.Redis = NewMemory(tb).Client
	}
	if cfg.Registry == nil {
		cfg.Registry = new(troupe.Registry)
	}
	if cfg.Logger.GetLevel() == zerolog.Disabled || isZero(cfg.Logger) {
		cfg.Logger = zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.WarnLevel)
	}
	d, err := actors.New(cfg)
	if err != nil {
		tb.Fatalf("new daemon: %v", err)
	}
	k := &Kit{Daemon: d, Redis: cfg.Redis, tb: tb}
	k.Client = client.New(cfg.Redis, client.WithMiddleware(cfg.ClientMiddleware...), client.WithTimestamps(cfg.Timestamps))
	if err := d.Start(context.Background()); err != nil {
		tb.Fatalf("start the daemon: %v", err)
	}
	tb.Cleanup(func() {
		k.Stop()
		time.Sleep(50 * time.Millisecond) // the actor library's dead-letter window; a bubble may not end before it
	})
	return k
}

// isZero tells an unset logger: it has no writer and logs nothing.
func isZero(l zerolog.Logger) bool { return l.Info() == nil } //nolint:zerologlint // asks, sends nothing

// Stop runs the stop protocol and returns its report.
func (k *Kit) Stop() actors.DrainReport {
	k.tb.Helper()
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

// Crash makes the actor at path crash with reason.
func (k *Kit) Crash(path string, reason error) {
	k.tb.Helper()
	if err := k.Daemon.Crash(path, reason); err != nil {
		k.tb.Fatalf("crash: %v\n%s", err, k.Tree())
	}
}

// Await waits until cond holds; after a minute (of the bubble's time, in one)
// the test fails with the tree.
func (k *Kit) Await(what string, cond func() bool) {
	k.tb.Helper()
	for deadline := time.Now().Add(awaitTime); !cond(); {
		if time.Now().After(deadline) {
			k.tb.Fatalf("not within %s: %s\n%+v\n%s", awaitTime, what, k.Stats(), k.Tree())
		}
		time.Sleep(2 * time.Millisecond) // a condition on a whole tree has no one signal
	}
}

// AwaitTree waits until cond holds for a snapshot of the tree.
func (k *Kit) AwaitTree(what string, cond func(actors.Tree) bool) {
	k.tb.Helper()
	k.Await(what, func() bool { return cond(k.Tree()) })
}
