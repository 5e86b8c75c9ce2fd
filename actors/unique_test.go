package actors_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// A lock is there from the push to the end of the job, whatever that is, and to no other end of a run.
func TestALockEndsWithItsJob(t *testing.T) {
	for name, c := range map[string]struct {
		until troupe.UniqueUntil
		err   error
		held  int // locks after the run
		atRun int // and during it
	}{
		"done":           {troupe.UntilDone, nil, 0, 1},
		"dead":           {troupe.UntilDone, troupe.Kill(errors.New("no")), 0, 1},
		"discarded":      {troupe.UntilDone, troupe.Discard(errors.New("no")), 0, 1},
		"to be retried":  {troupe.UntilDone, errors.New("no"), 1, 1},
		"parked":         {troupe.UntilDone, troupe.Park(time.Hour, nil), 1, 1},
		"moved":          {troupe.UntilDone, troupe.MoveTo("other"), 1, 1},
		"start":          {troupe.UntilStart, nil, 0, 0},
		"start, retried": {troupe.UntilStart, errors.New("no"), 0, 0},
		"period":         {troupe.UntilPeriod, nil, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rdb := testkit.Redis(t)
			count := func() int { return len(rdb.Keys(ctx, "troupe:lock:*").Val()) }
			var r troupe.Registry
			during := atomic.Int64{}
			during.Store(-1)
			troupe.HandleClass(&r, "One", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
				during.Store(int64(count()))
				return c.err
			}))
			push := client.New(rdb)
			unique := client.Unique(troupe.Unique{Until: c.until, For: time.Hour})
			first, err := push.PushClass(ctx, "One", []any{1}, unique)
			if err != nil {
				t.Fatal(err)
			}
			_, err = push.PushClass(ctx, "One", []any{1}, unique)
			dup := new(client.DuplicateError)
			if !errors.As(err, &dup) || dup.Holder != first || !errors.Is(err, client.ErrStopped) {
				t.Errorf("the second push: %v", err)
			}
			if _, err := push.PushClass(ctx, "One", []any{1}, unique, client.JID(first)); err != nil {
				t.Errorf("the first push, once more: %v", err)
			}
			if _, err := push.PushClass(ctx, "One", []any{1.0}, unique, client.Queue("parked")); err != nil {
				t.Errorf("another job: %v", err)
			}
			harness.Equal(t, "in the queue", rdb.LLen(ctx, "queue:default").Val(), 1)
			// a whole record that holds its own lock is pushed anew, as from the retry set
			record, err := troupe.ParsePayload([]byte(rdb.RPop(ctx, "queue:default").Val()))
			if err == nil {
				_, err = push.PushPayload(ctx, record)
			}
			if err != nil || rdb.LLen(ctx, "queue:default").Val() != 1 {
				t.Errorf("a record that holds its lock: %v", err)
			}
			harness.Equal(t, "locks", count(), 2)
			k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Queues: fetch.Strict{"default"}}}})
			k.Await("it has run", func() bool { return during.Load() >= 0 && k.Settled() })
			k.Stop()
			harness.Equal(t, "locks during the run", during.Load(), int64(c.atRun+1))
			harness.Equal(t, "locks after the run", count(), c.held+1)
			_, err = push.PushClass(ctx, "One", []any{1}, unique)
			if (err != nil) != (c.held == 1) {
				t.Errorf("a push after the run: %v", err)
			}
			if c.held == 1 && c.until == troupe.UntilDone {
				ttl := rdb.PTTL(ctx, dup.Lock).Val()
				if least := 50 * time.Minute; ttl < least {
					t.Errorf("the lock lives for %v, expected %v or more", ttl, least)
				}
			}
		})
	}
}

// What makes jobs the same: class, queue, the chosen arguments.
func TestWhatIsUnique(t *testing.T) {
	for name, c := range map[string]struct {
		unique  troupe.Unique
		first   []any
		second  []any
		options []client.Option
		same    bool
	}{
		"equal":              {troupe.Unique{}, []any{1, "x", map[string]any{"a": 1, "b": 2}}, []any{1, "x", map[string]any{"b": 2, "a": 1}}, nil, true},
		"another argument":   {troupe.Unique{}, []any{1}, []any{2}, nil, false},
		"1 is not 1.0":       {troupe.Unique{}, []any{1}, []any{1.0}, nil, false},
		"another queue":      {troupe.Unique{}, []any{1}, []any{1}, []client.Option{client.Queue("low")}, false},
		"across queues":      {troupe.Unique{Across: true}, []any{1}, []any{1}, []client.Option{client.Queue("low")}, true},
		"by the first":       {troupe.Unique{By: []string{"0"}}, []any{1, 2}, []any{1, 3}, nil, true},
		"by a field":         {troupe.Unique{By: []string{"user.id"}}, []any{map[string]any{"user": map[string]any{"id": 7, "n": 1}}}, []any{map[string]any{"user": map[string]any{"id": 7, "n": 2}}}, nil, true},
		"by a field, others": {troupe.Unique{By: []string{"0.user"}}, []any{map[string]any{"user": 1}}, []any{map[string]any{"user": 2}}, nil, false},
		"scheduled":          {troupe.Unique{}, []any{1}, []any{1}, []client.Option{client.In(time.Hour)}, true},
		"not":                {troupe.Unique{}, []any{1}, []any{1}, []client.Option{client.NotUnique()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			push := client.New(testkit.Redis(t))
			if _, err := push.PushClass(ctx, "One", c.first, client.Unique(c.unique)); err != nil {
				t.Fatal(err)
			}
			_, err := push.PushClass(ctx, "One", c.second, append([]client.Option{client.Unique(c.unique)}, c.options...)...)
			if dup := new(client.DuplicateError); errors.As(err, &dup) != c.same || !c.same && err != nil {
				t.Errorf("the second push: %v", err)
			}
		})
	}
	push := client.New(testkit.Redis(t))
	for _, u := range []troupe.Unique{{By: []string{"1"}}, {By: []string{"id"}}, {By: []string{""}}, {Until: 7}, {For: -1}, {Until: troupe.UntilPeriod}} {
		if _, err := push.PushClass(ctx, "One", []any{1}, client.Unique(u)); err == nil {
			t.Errorf("a push with %+v: no error", u)
		}
	}
}

type once struct {
	N int `arg:"0"`
}

func (once) Class() string { return "Once" }
func (once) Defaults() troupe.Options {
	return troupe.Options{Unique: &troupe.Unique{For: time.Minute}}
}

// Bulk pushes leave duplicates out, and tell which.
func TestDuplicatesOfABulk(t *testing.T) {
	rdb := testkit.Redis(t)
	push := client.New(rdb)
	jids, err := client.PushBulk(ctx, push, slices.Values([]once{{1}, {2}, {1}, {3}, {2}}))
	stopped := new(client.StoppedError)
	if !errors.As(err, &stopped) || len(stopped.Jobs) != 2 || jids[2] != "" || jids[4] != "" || jids[0] == "" {
		t.Fatalf("%q, %v", jids, err)
	}
	if dup := new(client.DuplicateError); !errors.As(stopped.Jobs[2], &dup) || dup.Holder != jids[0] {
		t.Errorf("the duplicate: %v", stopped.Jobs[2])
	}
	harness.Equal(t, "jobs", rdb.LLen(ctx, "queue:default").Val(), 3)
}

// A unique job that is pushed with the ack takes its lock in that step; a duplicate is left out, and told of.
func TestUniqueChildren(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	troupe.HandleClass(&r, "Parent", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		for n := range 3 {
			if _, err := client.Within(ctx).Push(ctx, once{n}, client.Queue("low")); err != nil {
				return err
			}
		}
		return nil
	}))
	if _, err := client.New(rdb).Push(ctx, once{1}, client.Queue("low"), client.JID("holder")); err != nil {
		t.Fatal(err)
	}
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Queues: fetch.Strict{"default"}}}})
	k.Expect(testkit.Events(func(e event.JobDone) bool { return e.Pushed == 2 && len(e.Left) == 1 }).Times(1), func() { k.PushClass("Parent", nil) })
	harness.Equal(t, "jobs", rdb.LLen(ctx, "queue:low").Val(), 3)
	harness.Equal(t, "locks", len(rdb.Keys(ctx, "troupe:lock:*").Val()), 3)
}

// On a Cluster the lock lies beside the queue.
func TestLocksOfACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	push := client.New(rdb)
	var ran atomic.Int64
	var r troupe.Registry
	troupe.Handle(&r, func(context.Context, *troupe.Job[once]) error { ran.Add(1); return nil })
	if _, err := push.Push(ctx, once{1}); err != nil {
		t.Fatal(err)
	}
	dup := new(client.DuplicateError)
	if _, err := push.Push(ctx, once{1}); !errors.As(err, &dup) {
		t.Fatalf("the second push: %v", err)
	}
	if _, err := push.Push(ctx, once{1}, client.Unique(troupe.Unique{Across: true})); err == nil {
		t.Error("across queues: no error")
	}
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
	k.Await("it has run", func() bool { return ran.Load() == 1 && k.Settled() })
	harness.Equal(t, "locks", rdb.Exists(ctx, dup.Lock).Val(), 0)
}
