package actors_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// stamps notes when its jobs began.
type stamps struct {
	mu   sync.Mutex
	at   []time.Time
	more func(n int) // called in the n-th job
}

func (s *stamps) Perform(context.Context, *troupe.Payload) error {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	n := len(s.at)
	s.mu.Unlock()
	if s.more != nil {
		s.more(n)
	}
	return nil
}

func (s *stamps) runs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

// until runs a daemon with one capsule until it ends by itself.
func until(t *testing.T, rdb *redis.Client, s *stamps, k actors.Capsule) (*actors.Daemon, error) {
	t.Helper()
	var r troupe.Registry
	troupe.HandleClass(&r, "Stamp", s)
	d := harness.Must(actors.New(actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{k}}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	harness.OK(t, d.Start(ctx))
	select {
	case <-d.Done():
	case <-ctx.Done():
		t.Error("the daemon did not end by itself")
		_, _ = d.Stop(t.Context())
	}
	return d, d.Err()
}

func stampJobs(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	for range n {
		harness.OK(t, rdb.LPush(t.Context(), "queue:default", `{"class":"Stamp","args":[],"jid":"0123456789abcdef01234567","retry":true}`).Err())
	}
}

func TestLimitsEndADaemon(t *testing.T) {
	for name, c := range map[string]struct {
		capsule    actors.Capsule
		jobs       int
		runs, left int
		err        error
	}{
		"jobs":               {actors.Capsule{Concurrency: 3, Limits: actors.Limits{Jobs: 5}}, 12, 5, 7, nil},
		"jobs, one":          {actors.Capsule{Concurrency: 3, Limits: actors.Limits{Jobs: 1}}, 2, 1, 1, nil},
		"empty":              {actors.Capsule{Concurrency: 3, Limits: actors.Limits{Empty: true}}, 12, 12, 0, nil},
		"empty at the start": {actors.Capsule{Concurrency: 3, Limits: actors.Limits{Empty: true}}, 0, 0, 0, nil},
		"time":               {actors.Capsule{Concurrency: 2, Limits: actors.Limits{Time: 300 * time.Millisecond}}, 3, 3, 0, nil},
		"memory":             {actors.Capsule{Concurrency: 2, Limits: actors.Limits{Memory: 1}}, 3, 0, 3, actors.ErrMemory},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb, s := testkit.Redis(t), new(stamps)
			stampJobs(t, rdb, c.jobs)
			_, err := until(t, rdb, s, c.capsule)
			if !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("the daemon ended with %v, expected %v", err, c.err)
			}
			harness.Equal(t, "jobs ran", s.runs(), c.runs)
			if n := rdb.LLen(t.Context(), "queue:default").Val(); int(n) != c.left {
				t.Errorf("%d jobs are left, expected %d", n, c.left)
			}
		})
	}
}

// What a job pushes is run before the queues count as empty.
func TestEmptyWaitsForWhatRunningJobsPush(t *testing.T) {
	rdb, s := testkit.Redis(t), new(stamps)
	s.more = func(n int) {
		time.Sleep(50 * time.Millisecond) // in which the queue is found empty
		if n < 5 {
			stampJobs(t, rdb, 1)
		}
	}
	stampJobs(t, rdb, 1)
	if _, err := until(t, rdb, s, actors.Capsule{Concurrency: 3, Limits: actors.Limits{Empty: true}}); err != nil {
		t.Error(err)
	}
	harness.Equal(t, "jobs ran", s.runs(), 5)
}

// A daemon goes on until all its capsules have come to their ends.
func TestALimitEndsItsCapsuleAlone(t *testing.T) {
	rdb, s := testkit.Redis(t), new(stamps)
	var r troupe.Registry
	troupe.HandleClass(&r, "Stamp", s)
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{
		{Name: "short", Limits: actors.Limits{Jobs: 1}},
		{Name: "long", Queues: actors.Strict{"other"}},
	}})
	k.Expect(testkit.Events(func(e event.CapsuleQuiet) bool { return e.Capsule == "short" }).Times(1), func() {
		stampJobs(t, rdb, 2)
		k.Await("one job", func() bool { return s.runs() == 1 })
	})
	harness.OK(t, rdb.LPush(t.Context(), "queue:other", `{"class":"Stamp","args":[],"jid":"0123456789abcdef01234567"}`).Err())
	k.Await("a job of the other capsule", func() bool { return s.runs() == 2 })
	select {
	case <-k.Daemon.Done():
		t.Error("the daemon has ended")
	default:
	}
}

func TestAProcessorRests(t *testing.T) {
	const rest = 100 * time.Millisecond
	rdb, s := testkit.Redis(t), new(stamps)
	stampJobs(t, rdb, 4)
	if _, err := until(t, rdb, s, actors.Capsule{Concurrency: 1, Rest: rest, Limits: actors.Limits{Empty: true}}); err != nil {
		t.Error(err)
	}
	if len(s.at) != 4 {
		t.Fatalf("%d jobs ran, expected 4", len(s.at))
	}
	slices.SortFunc(s.at, time.Time.Compare)
	for i := 1; i < len(s.at); i++ {
		if d := s.at[i].Sub(s.at[i-1]); d < rest {
			t.Errorf("job %d began %s after the one before, expected %s or more", i, d, rest)
		}
	}
}
