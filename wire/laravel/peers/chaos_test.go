package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/wire/laravel"
)

// Workers of both sides are killed at random while both push and run, release and fail: each job
// comes to its end, and nothing is left.
func TestChaos(t *testing.T) {
	t.Parallel()
	const jobs, kills = 400, 24
	a := newApp(t, "laravel_database_", "RETRY_AFTER=2")
	ctx := context.Background()
	ours := func() *chaos.Process { return a.troupe(daemon{Concurrency: 4, Lease: 2 * time.Second, Tries: -1}) }
	theirs := func() *php { return a.start("work.php", "--tries=0", "--sleep=0.05") }
	troupes, phps := []*chaos.Process{ours(), ours()}, []*php{theirs(), theirs()}
	behaviours := []map[string]any{{}, {"sleep": 0.05}, {"fail": 1}, {"release": 1}}
	for i := range jobs {
		data := map[string]any{"i": i}
		maps.Copy(data, behaviours[i%len(behaviours)])
		switch i % 3 {
		case 0:
			a.push("default", task, data)
		case 1:
			a.pushed(laravel.Job{Queue: "default", Name: task, Data: data})
		default:
			a.pushed(laravel.Job{Queue: "default", Name: task, Data: data, At: time.Now().Add(time.Duration(i%4) * time.Second)})
		}
		if i%(jobs/kills) == 0 {
			time.Sleep(rand.N(100 * time.Millisecond)) // the instant is the random part
			if n := rand.IntN(4); n < 2 {
				troupes[n].Kill()
				troupes[n] = ours()
			} else {
				_ = phps[n-2].cmd.Process.Kill()
				phps[n-2] = theirs()
			}
		}
	}
	ended := func() (n int) {
		tries := map[string]int{}
		done := map[int]bool{}
		for _, r := range a.runs() {
			var data struct {
				I, Fail int
				Release float64
			}
			if json.Unmarshal(r.Data, &data) != nil {
				t.Fatalf("run %+v", r)
			}
			tries[fmt.Sprint(data.I)]++
			done[data.I] = done[data.I] || r.Attempt > data.Fail && (data.Release == 0 || r.Attempt > 1)
		}
		for _, ok := range done {
			if ok {
				n++
			}
		}
		return n
	}
	a.await("all jobs", func() bool { return ended() == jobs })
	a.await("nothing in the queue", func() bool { return a.sizes("default") == "0 ready, 0 delayed, 0 reserved" })
	if failed, err := a.client().Failed(ctx, 0, 0); err != nil || len(failed)+len(a.failed()) != 0 {
		t.Errorf("%d and %d jobs have failed, %v", len(failed), len(a.failed()), err)
	}
	t.Logf("%d runs of %d jobs, with %d kills", len(a.runs()), jobs, kills)
}
