package actors_test

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

// measured adds up the fields of all counters of a dialect's minutes.
func measured(t *testing.T, rdb redis.UniversalClient, pattern string) map[string]int {
	t.Helper()
	sums := map[string]int{}
	for _, key := range rdb.Keys(ctx, pattern).Val() {
		for field, text := range rdb.HGetAll(ctx, key).Val() {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Errorf("%s of %s is %q", field, key, text)
			}
			sums[field] += n
		}
	}
	return sums
}

const (
	minutes7    = "j|????????|*" // 7 writes the year in full
	minutes8    = "j|??????|*:??"
	tenMinutes8 = "j|??????|*:?"
)

// What the page shows of each class: runs of all kinds, failures, and time of
// those that did not fail. The last flush is the one at the exit.
func TestMetricsOfEachClass(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	var runs atomic.Int64
	for class, perform := range map[string]troupe.HandlerFunc{
		// a real Redis, and a duration that a histogram shows
		"Done":    func(context.Context, *troupe.Payload) error { time.Sleep(2 * time.Millisecond); return nil },
		"Fails":   func(context.Context, *troupe.Payload) error { return errors.New("on purpose") },
		"Panics":  func(context.Context, *troupe.Payload) error { panic("on purpose") },
		"Dropped": func(context.Context, *troupe.Payload) error { return troupe.Discard(nil) },
		"Parked":  func(context.Context, *troupe.Payload) error { return troupe.Park(time.Hour, nil) },
		"Interrupted": func(context.Context, *troupe.Payload) error {
			time.Sleep(2 * time.Millisecond) // another such duration
			if runs.Add(1) == 1 {
				return troupe.ErrInterrupted
			}
			return nil
		},
		"Mailer": func(context.Context, *troupe.Payload) error { return nil },
		"Own::Wrapper": func(_ context.Context, p *troupe.Payload) error {
			p.SetString("wrapped", "Changed::Later")
			return nil
		},
	} {
		troupe.HandleClass(&r, class, perform)
	}
	k := testkit.Start(t, actors.Config{
		Redis: rdb, Registry: &r, HeartbeatInterval: time.Hour,
		Logger: zerolog.Nop(),
		Capsules: []actors.Capsule{
			{Concurrency: 2}, {Name: "second", Concurrency: 1, Queues: fetch.Strict{"second"}},
		},
	})
	for _, class := range []string{"Done", "Fails", "Panics", "Dropped", "Parked", "Unknown", "Own::Wrapper", "Interrupted"} {
		k.PushClass(class, nil, client.Set("wrapped", map[string]string{"Own::Wrapper": "Own::Job"}[class]))
	}
	k.PushClass("Done", nil, client.Queue("second"))
	k.PushClass("Sidekiq::ActiveJob::Wrapper", nil, client.Set("wrapped", "Mailer"))
	k.Await("all have run", func() bool { return k.Stats().Processed == 10 && size(t, rdb, "schedule") == 1 })
	k.Stop()
	want := map[string]int{
		"Done|p": 2, "Fails|p": 1, "Fails|f": 1, "Panics|p": 1, "Panics|f": 1, "Dropped|p": 1, "Dropped|f": 1,
		"Mailer|p": 1, "Own::Job|p": 1, "Interrupted|p": 2,
	}
	for _, pattern := range []string{minutes7, minutes8, tenMinutes8} {
		got := measured(t, rdb, pattern)
		for _, class := range []string{"Done", "Interrupted"} {
			if ms := got[class+"|ms"]; ms < 4 || ms > 60_000 {
				t.Errorf("%s: %d ms of %s in all", pattern, ms, class)
			}
		}
		for field := range got {
			if class, isTime := strings.CutSuffix(field, "|ms"); isTime && got[class+"|p"] > got[class+"|f"] {
				delete(got, field)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s\n got %v\nwant %v", pattern, got, want)
		}
	}
	for _, pattern := range []string{"Done-*", "h|Done-*"} {
		if keys := rdb.Keys(ctx, pattern).Val(); len(keys) == 0 {
			t.Errorf("no histogram %s", pattern)
		}
	}
	for _, pattern := range []string{"Fails-*", "h|Fails-*", "*Parked*", "*Unknown*", "*Changed*"} {
		if keys := rdb.Keys(ctx, pattern).Val(); len(keys) > 0 {
			t.Errorf("keys %q", keys)
		}
	}
}

func TestMetricsOfOneDialectOrNone(t *testing.T) {
	for metrics, want := range map[string][2]bool{
		"": {true, true}, "both": {true, true}, "7": {true, false}, "8": {false, true}, "off": {},
	} {
		t.Run(metrics, func(t *testing.T) {
			rdb := testkit.Redis(t)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: script.New(t).Registry(), Metrics: metrics, HeartbeatInterval: 20 * time.Millisecond,
			})
			push(k, 3, script.OK())
			k.Await("a beat after them", func() bool { return rdb.Get(ctx, "stat:processed").Val() == "3" })
			k.Stop()
			for i, pattern := range []string{minutes7, minutes8} {
				runs := measured(t, rdb, pattern)["Scripted|p"]
				if wrote := runs == 3; wrote != want[i] || !wrote && runs != 0 {
					t.Errorf("%s counts %d runs", pattern, runs)
				}
			}
			if n := len(rdb.Keys(ctx, "*Scripted-*").Val()); (n > 0) != (want[0] || want[1]) {
				t.Errorf("%d histograms", n)
			}
		})
	}
}

// A server without bit fields, as the demo's, costs the histograms and one line.
func TestMetricsInMemory(t *testing.T) {
	m, log := testkit.NewMemory(t), &harness.Buffer{}
	k := testkit.Start(t, actors.Config{
		Redis: m.Client, Registry: script.New(t).Registry(), HeartbeatInterval: 10 * time.Millisecond, Logger: zerolog.New(log),
	})
	for want := range 4 {
		push(k, 1, script.OK())
		k.Await("a beat", func() bool { return measured(t, m.Client, minutes7)["Scripted|p"] == want+1 })
	}
	k.Stop()
	if got := measured(t, m.Client, minutes8); got["Scripted|p"] != 4 {
		t.Errorf("%v", got)
	}
	harness.Equal(t, "told times", log.Count("job metrics are not written in full"), 1)
	// a machine that stands still makes any Redis slow
	harness.Equal(t, "warnings", log.Count(`"level":"error"`)+log.Count(`"level":"warn"`)-log.Count("redis is slow"), 0)
}

func TestTheOldKeyOfRunningJobsIsAnOption(t *testing.T) {
	for _, on := range []bool{false, true} {
		t.Run(strconv.FormatBool(on), func(t *testing.T) {
			rdb, s := testkit.Redis(t), script.New(t)
			k := testkit.Start(t, actors.Config{
				Redis: rdb, Registry: s.Registry(), WorkersKey: on, HeartbeatInterval: 10 * time.Millisecond,
			})
			push(k, 1, script.Hang())
			k.Await("the job is shown", func() bool { return rdb.HLen(ctx, k.Identity()+":work").Val() == 1 })
			old, err := rdb.HGetAll(ctx, k.Identity()+":workers").Result()
			if err != nil || on != maps.Equal(old, rdb.HGetAll(ctx, k.Identity()+":work").Val()) || !on && len(old) != 0 {
				t.Errorf("under the old key: %v, %v", old, err)
			}
			s.Release()
			k.Stop()
			if n := rdb.Exists(ctx, k.Identity()+":workers").Val(); n != 0 {
				t.Error("the old key is left behind")
			}
		})
	}
}
