package e2e

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// Three processes work under load while they are stopped, killed and replaced at
// random. Every job runs to its end, none is left anywhere, and none that no
// killed process had begun ends well twice.
func TestRandomKillsAndStops(t *testing.T) {
	t.Parallel()
	const rounds, perRound, rate = 200, 15, 100 * time.Millisecond
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	c := client.New(rdb)
	// A machine that stands still for a lease or a timeout is no fault of a process,
	// and a job that three kills happen to hit is no poison pill.
	spec := workerSpec{Redis: url, Records: rec.url, Lease: 6 * time.Second, Timeout: 20 * time.Second, Poll: time.Second, Poison: -1,
		Capsules: []capsuleSpec{{Concurrency: 10, Queues: []string{"default", "low"}}, {Name: "other", Concurrency: 3, Queues: []string{"other", "default"}}}}
	var workers []*chaos.Process
	for range 3 {
		workers = append(workers, startWorker(t, spec))
	}
	killed := map[int]bool{}
	var stopped []*chaos.Process
	pushed := map[string]bool{}
	stops := 0
	tick := time.NewTicker(rate)
	defer tick.Stop()
	for range rounds {
		<-tick.C
		queue := []string{"default", "low", "other"}[r.IntN(3)]
		opts := []client.Option{client.Queue(queue)}
		if r.IntN(5) == 0 {
			opts = append(opts, client.In(time.Duration(r.IntN(1500))*time.Millisecond+time.Millisecond))
		}
		jids := harness.Must(c.PushBulkClass(t.Context(), "Mixed", numbered(perRound), opts...))(t)
		for _, jid := range jids {
			pushed[jid] = true
		}
		if r.IntN(10) == 0 {
			retryNow(t, rdb)
		}
		if r.IntN(5) != 0 {
			continue
		}
		i := r.IntN(len(workers))
		young := len(workers[i].Logged("troupe is running")) == 0 // TERM would end it like KILL
		if r.IntN(2) == 0 || young {
			killed[workers[i].PID()] = true
			workers[i].Dull = true
			workers[i].Signal(syscall.SIGKILL)
		} else {
			stops++
			workers[i].Signal(syscall.SIGTERM)
			stopped = append(stopped, workers[i])
		}
		workers[i] = startWorkerSoon(t, spec)
	}
	for _, p := range stopped {
		harness.Equal(t, "exit code after TERM", p.Exit(soon), 0)
		if report := harness.Drain(t, p); len(harness.Strs(report, "left"))+len(harness.Strs(report, "requeued"))+len(harness.Strs(report, "abandoned")) > 0 {
			t.Errorf("drain report after a stop under light load: %v", report)
		}
	}
	testkit.Await(t, "every job has ended well", func() bool {
		retryNow(t, rdb)
		return len(ran(rec)) == len(pushed)
	})
	testkit.Await(t, "no job is left", func() bool {
		retryNow(t, rdb) // of a run that was killed after its end and before its ack
		return len(leftovers(t, rdb)) == 0
	})
	twice := 0
	for jid, n := range ran(rec) {
		if n < 2 {
			continue
		}
		twice++
		alive := 0
		for _, e := range rec.find("end", jid) {
			if e.Error == "" && !killed[e.PID] {
				alive++
			}
		}
		if alive > 1 {
			t.Errorf("%s ended well %d times in processes that were not killed", jid, alive)
		}
	}
	t.Logf("%d jobs, %d runs, %d kills, %d stops; %d jobs ended well twice", len(pushed), len(rec.find("start", "")), len(killed), stops, twice)
	fetchers := int64(2 * len(workers))
	testkit.Await(t, "the dead are forgotten", func() bool { return rdb.HLen(t.Context(), "troupe:places").Val() == fetchers })
	for _, p := range workers {
		p.Stop(soon)
	}
	for _, key := range []string{"troupe:places", "troupe:expiries"} {
		if rdb.Exists(t.Context(), key).Val() != 0 {
			t.Errorf("key %s is left", key)
		}
	}
}
