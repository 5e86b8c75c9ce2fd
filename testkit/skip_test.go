package testkit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// A job for tomorrow runs tomorrow: at its time, and not before.
func TestSkipToTomorrow(t *testing.T) {
	var jobs troupe.Registry
	var ran []time.Time
	troupe.HandleClass(&jobs, "Report", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		ran = append(ran, time.Now())
		return nil
	}))
	testkit.Virtual(t, actors.Config{Registry: &jobs}, func(t *testing.T, k *testkit.Kit) {
		began := time.Now()
		k.PushClass("Report", nil, client.In(24*time.Hour))
		k.Skip(24*time.Hour - time.Second)
		if len(ran) != 0 {
			t.Fatalf("it ran at %v", ran)
		}
		k.Skip(2 * time.Second)
		if len(ran) != 1 || ran[0].Sub(began).Round(time.Millisecond) != 24*time.Hour || time.Since(began) != 24*time.Hour+time.Second {
			t.Errorf("it began at %s, ran at %v, and it is %s", began, ran, time.Now())
		}
		if !k.Healthy() {
			t.Errorf("not all run again:\n%s", k.Tree())
		}
	}, testkit.Strict())
}

// A job that always fails is tried 25 times more in about 20 days, and dies. With the race detector it has 12 retries, in half a day.
func TestSkipThroughAllRetries(t *testing.T) {
	var jobs troupe.Registry
	var tries []time.Time
	troupe.HandleClass(&jobs, "Hopeless", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		tries = append(tries, time.Now())
		return errors.New("no")
	}))
	retries := harness.Effort(12, 25)
	least, most := 20*24*time.Hour, 22*24*time.Hour
	if retries == 12 {
		least, most = 10*time.Hour, 13*time.Hour
	}
	testkit.Virtual(t, actors.Config{Registry: &jobs, Lease: 10 * time.Minute}, func(t *testing.T, k *testkit.Kit) {
		if retries == 25 { // as many as by default
			k.PushClass("Hopeless", nil)
		} else {
			k.PushClass("Hopeless", nil, client.Retry(retries))
		}
		k.Skip(most)
		if len(tries) != retries+1 {
			t.Fatalf("%d tries: %v", len(tries), tries)
		}
		if took := tries[retries].Sub(tries[0]); took < least || took > most {
			t.Errorf("the tries took %s", took)
		}
		if dead := k.Redis.ZCard(t.Context(), "dead").Val(); dead != 1 || k.Stats().Failed != uint64(retries+1) {
			t.Errorf("%d are dead, %+v", dead, k.Stats())
		}
	}, testkit.Strict())
}

// The heart beats in what is skipped, and what others push meanwhile runs soon.
func TestSkipLetsTheDaemonLive(t *testing.T) {
	var jobs troupe.Registry
	var ran time.Time
	troupe.HandleClass(&jobs, "Late", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { ran = time.Now(); return nil }))
	beats, hearts := 0, 0
	cfg := actors.Config{Registry: &jobs, On: actors.Events{
		Beat: []func(context.Context){func(context.Context) { beats++ }}, Heartbeat: []func(context.Context){func(context.Context) { hearts++ }},
	}}
	testkit.Virtual(t, cfg, func(t *testing.T, k *testkit.Kit) {
		began := time.Now()
		pushed := began.Add(2*time.Hour + time.Minute)
		time.AfterFunc(time.Until(pushed), func() { k.PushClass("Late", nil) })
		k.Skip(3 * time.Hour)
		if late := ran.Sub(pushed); late < 0 || late > 31*time.Second {
			t.Errorf("pushed at %s, ran at %s", pushed, ran)
		}
		if beats < 3*6 || hearts != 1 {
			t.Errorf("%d beats, the process was new to Redis %d times", beats, hearts)
		}
	}, testkit.Strict())
}

// A job that runs gets all of its time.
func TestSkipWhileAJobRuns(t *testing.T) {
	var jobs troupe.Registry
	done := false
	troupe.HandleClass(&jobs, "Slow", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error {
		time.Sleep(10 * time.Minute) // in a bubble
		done = true
		return nil
	}))
	testkit.Virtual(t, actors.Config{Registry: &jobs}, func(t *testing.T, k *testkit.Kit) {
		k.PushClass("Slow", nil)
		k.Skip(9 * time.Minute)
		if done || k.Stats().Busy != 1 {
			t.Errorf("done %v, %+v", done, k.Stats())
		}
		k.Skip(2 * time.Minute)
		if !done || k.Stats().Processed != 1 {
			t.Errorf("done %v, %+v", done, k.Stats())
		}
	}, testkit.Strict())
}

// Actors that the test has suspended stay so.
func TestSkipLeavesWhatTheTestHasSuspended(t *testing.T) {
	testkit.Virtual(t, actors.Config{}, func(t *testing.T, k *testkit.Kit) {
		k.Suspend("launcher/poller")
		k.Skip(time.Hour)
		if s := k.Tree().Find("launcher/poller").State; s == actors.StateRunning {
			t.Errorf("it is %s", s)
		}
	})
}

func TestSkipInRealTime(t *testing.T) {
	harness.Fails(t, func(tb testing.TB) { testkit.Start(tb, actors.Config{}).Skip(time.Hour) },
		"Skip(1h0m0s): the time of this test is real, which cannot be skipped: use Virtual, or testing/synctest")
}

// BenchmarkIdleHour is a virtual hour of a daemon that has nothing to do, slept and
// skipped.
func BenchmarkIdleHour(b *testing.B) {
	for name, pass := range map[string]func(*testkit.Kit){
		// each runs in a bubble
		"sleep": func(*testkit.Kit) { time.Sleep(time.Hour) },
		"skip":  func(k *testkit.Kit) { k.Skip(time.Hour) },
	} {
		b.Run(name, func(b *testing.B) {
			began := time.Now()
			ok := testing.RunTests(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "bubble", F: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k := testkit.Start(t, actors.Config{Logger: zerolog.Nop()})
					for range b.N {
						pass(k)
					}
				})
			}}})
			if !ok {
				b.Error("it failed")
			}
			b.ReportMetric(float64(time.Since(began).Nanoseconds())/float64(b.N), "ns/op") // b's own timer shows the bubble's
		})
	}
}
