package conformance

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	occurred "github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// asked is what daemons tell of the jobs of a class.
type asked struct {
	mu     sync.Mutex
	starts []time.Time
	held   int
}

func (a *asked) note(class string) func(occurred.Event) {
	return func(e occurred.Event) {
		a.mu.Lock()
		defer a.mu.Unlock()
		switch e := e.(type) {
		case occurred.JobStarted:
			if e.Job.Class == class {
				a.starts = append(a.starts, time.Now())
			}
		case occurred.JobHeld:
			if e.Job.Class == class {
				a.held++
			}
		}
	}
}

// last is the time of the last start.
func (a *asked) last() time.Time { return slices.MaxFunc(a.starts, time.Time.Compare) }

// pushMany pushes n jobs, with their numbers as arguments.
func pushMany(t *testing.T, rdb *redis.Client, class string, n int) {
	t.Helper()
	_, err := client.New(rdb).PushBulkClass(t.Context(), class, numbered(n))
	harness.OK(t, err)
}

// fleetOf starts n daemons.
func fleetOf(t *testing.T, n int, cfg actors.Config) (kits []*testkit.Kit) {
	t.Helper()
	for range n {
		kits = append(kits, testkit.Start(t, cfg))
	}
	return kits
}

// until lets time pass until so many jobs are done, and stops all.
func until(t *testing.T, kits []*testkit.Kit, jobs int, limit time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		done := uint64(0)
		for _, k := range kits {
			done += k.Stats().Processed
		}
		if done == uint64(jobs) {
			break
		}
		if done > uint64(jobs) || time.Since(began) > limit {
			t.Fatalf("after %v %d of %d jobs are done", time.Since(began), done, jobs)
		}
	}
	for _, k := range kits {
		k.Stop()
	}
}

// figure is how many jobs a figure is of: some in CI, all with TROUPE_LONG.
func figure(some, all int) int {
	if os.Getenv("TROUPE_LONG") != "" {
		return all
	}
	return some
}

// Ten jobs without a limit stand behind 10,000 with one in the same queue, of which the processors of two processes take what comes
// next: the ten start within a second, the others take almost a minute, and ask less than three times each. In CI they are 2,000.
func TestLimitsFreeJobsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const free = 10
		jobs := figure(2000, 10_000)
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var ran, freeRan limited
		ran.handle(&r, "Limited", lasts(10*time.Millisecond), troupe.Limit{Name: "two", AtOnce: 2})
		freeRan.handle(&r, "Free", lasts(10*time.Millisecond))
		pushMany(t, mem.Client, "Limited", jobs)
		pushMany(t, mem.Client, "Free", free)
		var all, others asked
		began := time.Now()
		until(t, fleetOf(t, 2, actors.Config{
			Redis: mem.Client, Registry: &r, Subscribers: []func(occurred.Event){all.note("Limited"), others.note("Free")},
		}), jobs+free, 2*time.Minute)
		harness.Equal(t, "runs", len(all.starts)+len(others.starts), jobs+free)
		harness.Equal(t, "most at once", ran.most, 2)
		asks := len(all.starts) + all.held
		t.Logf("%d asks of %d jobs; the last free one started after %v, the last limited one after %v",
			asks, jobs, others.last().Sub(began), all.last().Sub(began))
		if asks >= 3*jobs {
			t.Errorf("%d asks of %d jobs, expected less than three each", asks, jobs)
		}
		if wait := others.last().Sub(began); wait >= time.Second {
			t.Errorf("the last free job started after %v", wait)
		}
		if took := all.last().Sub(began); took < time.Duration(jobs)*4*time.Millisecond {
			t.Errorf("the limited jobs took %v: there was nothing to wait for", took)
		}
	})
}

// Ten processes start 10 jobs a second, within 2 % in any minute, and after each pause as many together as the burst says. In CI
// 2,000 jobs, with TROUPE_LONG 10,000.
func TestLimitsARateOfTenProcesses(t *testing.T) {
	for _, burst := range []int{1, 20} {
		t.Run(fmt.Sprint("burst ", burst), func(t *testing.T) { keepARate(t, burst) })
	}
}

func keepARate(t *testing.T, burst int) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 10
		jobs := figure(1000, 5000) // of each lot
		mem := testkit.NewMemory(t)
		var r troupe.Registry
		var ran limited
		ran.handle(&r, "C", lasts(5*time.Millisecond), troupe.Limit{Name: "api", Rate: rate, Burst: burst})
		var all asked
		kits := fleetOf(t, 10, actors.Config{Redis: mem.Client, Registry: &r, Concurrency: 5, Subscribers: []func(occurred.Event){all.note("C")}})
		pushMany(t, mem.Client, "C", jobs)
		time.Sleep(time.Duration(jobs)*time.Second/rate + 10*time.Second) // then there is a pause
		pushMany(t, mem.Client, "C", jobs)
		until(t, kits, 2*jobs, time.Duration(jobs)*time.Second)
		slices.SortFunc(all.starts, time.Time.Compare)
		harness.Equal(t, "starts", len(all.starts), 2*jobs)
		for starts := range slices.Chunk(all.starts, jobs) {
			together := 0
			for together < len(starts) && starts[together].Sub(starts[0]) < time.Second/rate/2 {
				together++
			}
			harness.Equal(t, "jobs that start together after a pause", together, burst)
			least, most := jobs, 0
			for i, end := together, together; i < len(starts); i++ {
				for end < len(starts) && starts[end].Sub(starts[i]) < time.Minute {
					end++
				}
				if end == len(starts) {
					break // the rest is no minute
				}
				least, most = min(least, end-i), max(most, end-i)
			}
			t.Logf("%d to %d starts in a minute", least, most)
			if least < 60*rate*98/100 || most > 60*rate*102/100 {
				t.Errorf("%d to %d starts in a minute, expected %d to within 2 %%", least, most, 60*rate)
			}
		}
	})
}
