package peers

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/wire/goworkers"
)

// All three take from one queue, with retries and schedules, while one after the other is
// killed. The killed ones of go-workers are adopted, or start again under their names.
func TestChaos(t *testing.T) {
	t.Parallel()
	const jobs, kills = 600, 24
	rdb, addr := redisFor(t)
	ctx := t.Context()
	peers := []peer{
		{Kind: "troupe", Lease: time.Second}, {Kind: "troupe", Lease: time.Second},
		{Kind: "v1", Process: "one"}, {Kind: "v2", Process: "two"},
	}
	processes := make([]*process, len(peers))
	for i := range peers {
		p := &peers[i]
		p.Addr, p.Namespace, p.Queues, p.Conc = addr, "ns", []string{"q"}, 4
		processes[i] = start(t, *p)
	}
	c := goworkers.NewClient(rdb, "ns")
	r := rand.New(rand.NewPCG(1, 2))
	pushed := map[string]bool{}
	fails := map[string]bool{}
	killed := 0
	for i := range jobs {
		j := goworkers.Job{Queue: "q", Class: "Any", Args: []string{"sleep"}, Retries: troupe.Times(1)}
		if i%10 == 0 {
			j.Args = []string{"fail"} // three runs
		}
		if i%3 == 0 {
			j.At = time.Now().Add(time.Duration(r.IntN(1500)) * time.Millisecond)
		}
		jids, err := c.Push(ctx, j)
		must(t, "push", err)
		pushed[jids[0]], fails[jids[0]] = true, i%10 == 0
		time.Sleep(20 * time.Millisecond) // pushes are spread over the kills
		if i%(jobs/kills) == jobs/kills-1 {
			k := r.IntN(len(peers))
			processes[k].kill()
			killed++
			if peers[k].Process != "" && r.IntN(2) == 0 {
				_, err := goworkers.Adopt(ctx, rdb, goworkers.Adoption{Namespace: "ns", Processes: []string{peers[k].Process}})
				must(t, "adopt", err)
			}
			processes[k] = start(t, peers[k])
		}
	}
	hurry(t, rdb, "ns:goretry", func() bool {
		return rdb.ZCard(ctx, "ns:goretry").Val()+rdb.ZCard(ctx, "ns:schedule").Val()+rdb.LLen(ctx, "ns:queue:q").Val() == 0 &&
			len(times(t, rdb)) == jobs && inProgress(t, rdb) == 0
	})
	n := times(t, rdb)
	again := 0
	for jid := range pushed {
		least := 1
		if fails[jid] {
			least = 3
		}
		if n[jid] < least {
			t.Errorf("%s ran %d times, expected %d or more", jid, n[jid], least)
		}
		again += max(0, n[jid]-least)
	}
	t.Logf("%d jobs, %d kills: 0 lost, %d more runs", jobs, killed, again)
	if again > killed*8+jobs/10 {
		t.Errorf("%d runs more than the kills explain", again)
	}
}

// inProgress counts the jobs in all lists but the queue.
func inProgress(t *testing.T, rdb *redis.Client) (n int64) {
	t.Helper()
	for _, key := range rdb.Keys(t.Context(), "ns:*").Val() {
		if strings.Contains(key, "troupe:claim") || strings.HasSuffix(key, ":inprogress") {
			n += rdb.LLen(t.Context(), key).Val()
		}
	}
	return n
}
