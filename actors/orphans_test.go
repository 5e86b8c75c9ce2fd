package actors_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// refused tells whether a push of the job is refused by its lock.
func refused(t *testing.T, push *client.Client, class string, opts ...client.Option) bool {
	t.Helper()
	_, err := push.PushClass(ctx, class, []any{1}, opts...)
	if err != nil && !errors.Is(err, client.ErrStopped) {
		t.Fatal(err)
	}
	return err != nil
}

// The lock of a job that runs for longer than the lock lives does not end before it.
func TestALockLastsAsLongAsItsJobRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var r troupe.Registry
		troupe.HandleClass(&r, "Long", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-end; return nil }))
		k := testkit.Start(t, actors.Config{Registry: &r})
		push, unique := client.New(k.Redis), client.Unique(troupe.Unique{For: time.Minute})
		if refused(t, push, "Long", unique) {
			t.Fatal("the first push is refused")
		}
		for range 10 {
			time.Sleep(59 * time.Second)
			if !refused(t, push, "Long", unique) {
				t.Error("a push beside the job that runs is not refused")
			}
		}
		close(end)
		k.Await("the job has ended", k.Settled)
		if refused(t, push, "Long", unique) {
			t.Error("a push after the job has ended is refused")
		}
	})
}

// A lock whose job is gone, whoever has run or deleted it, is freed within two minutes of the first push that it refuses;
// one whose job waits or runs never is, and neither is one that is held for a period.
func TestALockWithoutAJobIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		var log harness.Buffer
		var r troupe.Registry
		troupe.HandleClass(&r, "Running", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { <-never; return nil }))
		troupe.HandleClass(&r, "Retried", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return troupe.RetryIn(time.Hour, errors.New("no")) }))
		troupe.HandleClass(&r, "Period", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { return nil }))
		k := testkit.Start(t, actors.Config{
			Registry: &r, Logger: zerolog.New(&log), Capsules: []actors.Capsule{{Queues: fetch.Strict{"default"}}},
		})
		rdb := k.Redis
		push, unique := client.New(rdb), client.Unique(troupe.Unique{})
		all := map[string][]client.Option{
			"Waiting": {unique, client.Queue("elsewhere")}, "Scheduled": {unique, client.In(time.Hour)}, "Running": {unique}, "Retried": {unique},
			"Gone": {unique, client.Queue("gone")}, "Period": {client.Unique(troupe.Unique{Until: troupe.UntilPeriod, For: time.Hour})},
		}
		for class, opts := range all {
			if refused(t, push, class, opts...) {
				t.Fatalf("%s: the first push is refused", class)
			}
		}
		time.Sleep(time.Minute)
		harness.Equal(t, "jobs deleted", rdb.Del(ctx, "queue:gone").Val(), 1)
		for class, opts := range all {
			if !refused(t, push, class, opts...) {
				t.Errorf("%s: the second push is not refused", class)
			}
		}
		time.Sleep(2 * time.Minute)
		for range 10 {
			for class, opts := range all {
				if class != "Gone" && !refused(t, push, class, opts...) {
					t.Errorf("%s: a push is not refused, and its lock is no orphan", class)
				}
			}
			time.Sleep(30 * time.Second)
		}
		if refused(t, push, "Gone", all["Gone"]...) {
			t.Error("a lock without a job is there after two minutes")
		}
		harness.Equal(t, "lines of the log", strings.Count(log.String(), "a lock was freed: its job is gone"), 1)
		close(never)
	})
}

// A dead process has its job as poison: the lock ends with it.
func TestALockEndsWithAPoisonPill(t *testing.T) {
	rdb := testkit.Redis(t)
	push, unique := client.New(rdb), client.Unique(troupe.Unique{})
	if refused(t, push, "A", unique) {
		t.Fatal("the first push is refused")
	}
	orphan(t, rdb, rdb.RPop(ctx, "queue:default").Val(), false)
	rdb.SAdd(ctx, "paused", "default")
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: new(troupe.Registry), Capsules: onlyDefault, Lease: time.Second, Logger: zerolog.Nop(),
		Poison: actors.Poison{Recoveries: 1, Suspect: -1},
	})
	k.Await("the job is dead", func() bool { return size(t, rdb, "dead") == 1 })
	k.Await("its lock is free", func() bool { return !refused(t, push, "A", unique) })
}

// A job that is given up, since it is unresponsive, keeps its lock until its retry, and loses it with its death.
func TestALockOfAJobThatIsGivenUp(t *testing.T) {
	for name, retries := range map[string]int{"retried": 5, "dead": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				var r troupe.Registry
				troupe.HandleClass(&r, "Stubborn", troupe.HandlerFunc(stubborn(release)), troupe.Options{Timeout: 20 * time.Millisecond})
				k := testkit.Start(t, actors.Config{
					Registry: &r, Logger: zerolog.Nop(), Grace: 30 * time.Millisecond, Capsules: []actors.Capsule{{MaxUnresponsive: 1, Queues: fetch.Strict{"default"}}},
				})
				push, opts := client.New(k.Redis), []client.Option{client.Unique(troupe.Unique{}), client.Retry(retries)}
				if refused(t, push, "Stubborn", opts...) {
					t.Fatal("the first push is refused")
				}
				time.Sleep(10 * time.Second)
				harness.Equal(t, "jobs given up", size(t, k.Redis, "retry")+size(t, k.Redis, "dead"), 1)
				harness.Equal(t, "a push afterwards is refused", refused(t, push, "Stubborn", append(opts, client.Queue("default"))...), retries > 0)
				close(release)
			})
		})
	}
}
