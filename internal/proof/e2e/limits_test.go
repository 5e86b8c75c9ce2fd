package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// limitedConfig has jobs under two limits. %[1]s is a folder.
const limitedConfig = `
log: json
lease: 2
limits:
  account: {at_once: 2, by: 0, classes: [Work]}
  api: {rate: 20/s, burst: 5, classes: [Work]}
handlers:
  Work: {exec: [/bin/sh, -c, 'echo "b $TROUPE_JID $(date +%%s%%N)" >> %[1]s/runs; sleep 0.3; echo "e $TROUPE_JID $(date +%%s%%N)" >> %[1]s/runs']}
`

// limitedRun is a run of a job, as its program has written it down.
type limitedRun struct {
	jid      string
	from, to time.Time // no to: it was cut off
}

func limitedRuns(t *testing.T, file string) (runs []*limitedRun) {
	t.Helper()
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	harness.OK(t, err)
	open := map[string]*limitedRun{}
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		at := time.Unix(0, harness.Must(strconv.ParseInt(w[2], 10, 64))(t))
		if w[0] == "b" {
			open[w[1]] = &limitedRun{jid: w[1], from: at}
			runs = append(runs, open[w[1]])
		} else {
			open[w[1]].to = at
		}
	}
	return runs
}

// Two daemons keep a limit by key and a rate. One is killed with -9 while it runs jobs: they share their slots when they come
// back, one that does not come back leaves its slot at the end of its time, no more run at once than may, and nothing is held in the end.
func TestLimitsOfAKilledDaemon(t *testing.T) {
	t.Parallel()
	const jobs, accounts, atOnce, rate, burst = 60, 3, 2, 20, 5
	const slotLife = 46 * time.Second // three heartbeats, which are longer than the lease, and 15 s; it ends with a whole second
	dir := t.TempDir()
	file := filepath.Join(dir, "runs")
	rdb, url := redistest.New(t)
	account := map[string]int{}
	for i := range jobs {
		jid, _ := push(t, rdb, "Work", fmt.Sprintf("[%d]", i%accounts))
		account[jid] = i % accounts
	}
	dies := daemon(t, url, fmt.Sprintf(limitedConfig, dir), "-c", "5")
	testkit.Await(t, "jobs that run", func() bool { return len(limitedRuns(t, file)) >= 5 })
	began := limitedRuns(t, file)[0].from
	lives := daemon(t, url, fmt.Sprintf(limitedConfig, dir), "-c", "5")
	testkit.Await(t, "held jobs", func() bool { return len(heldJobs(t, rdb)) > 0 })
	dies.Kill()
	killed := time.Now()

	gone := removeOne(t, rdb, lives.PID(), limitedRuns(t, file))
	testkit.Await(t, "all jobs but the one that is gone have run to their end", func() bool {
		done := map[string]bool{}
		for _, r := range limitedRuns(t, file) {
			if !r.to.IsZero() {
				done[r.jid] = true
			}
		}
		delete(done, gone)
		return len(done) == jobs-1
	})
	clean(t, rdb)
	if held := heldJobs(t, rdb); len(held) > 0 {
		t.Errorf("in the end %v are held", held)
	}
	for _, key := range rdb.Keys(t.Context(), keys.Slots(keys.LimitBase("", false), "*")).Val() {
		for _, z := range rdb.ZRangeWithScores(t.Context(), key, 0, -1).Val() {
			ends := time.UnixMicro(int64(z.Score * 1e6))
			if z.Member != gone && ends.After(time.Now()) || ends.Sub(killed) > slotLife {
				t.Errorf("%s: %s has a slot that ends %s after the kill; the job that is gone is %s", key, z.Member, ends.Sub(killed), gone)
			}
		}
	}

	runs := limitedRuns(t, file)
	for i, r := range runs {
		if r.to.IsZero() {
			r.to = killed
		}
		with := []string{r.jid}
		for _, o := range runs[:i] {
			if account[o.jid] == account[r.jid] && o.to.After(r.from) && !slices.Contains(with, o.jid) {
				with = append(with, o.jid)
			}
		}
		if len(with) > atOnce {
			t.Errorf("%d jobs of account %d at once: %v", len(with), account[r.jid], with)
		}
		if most := int(r.from.Sub(began).Seconds()*rate) + burst + rate/2; i+1 > most {
			t.Errorf("%d jobs have begun in %s, at %d a second", i+1, r.from.Sub(began), rate)
		}
	}
	lives.Stop(soon)
	t.Logf("%d runs of %d jobs; the last one began %s after the kill", len(runs), jobs, runs[len(runs)-1].from.Sub(killed).Round(10*time.Millisecond))
}

// heldJobs are the jobs that rules hold.
func heldJobs(t *testing.T, rdb *redis.Client) (held []string) {
	t.Helper()
	for _, key := range rdb.Keys(t.Context(), keys.Held(keys.LimitBase("", false), "*")).Val() {
		held = append(held, rdb.ZRange(t.Context(), key, 0, -1).Val()...)
	}
	return held
}

// removeOne takes a job out of Redis that the killed process has run, as somebody does who deletes it by hand.
func removeOne(t *testing.T, rdb *redis.Client, lives int, runs []*limitedRun) string {
	t.Helper()
	lists := harness.Must(redistest.InProgress(t.Context(), rdb))(t)
	for name, jobs := range lists {
		for _, job := range jobs {
			jid := parsed(t, job).JID()
			if !strings.Contains(name, fmt.Sprintf(":%d:", lives)) && slices.ContainsFunc(runs, func(r *limitedRun) bool { return r.jid == jid && r.to.IsZero() }) {
				if rdb.LRem(t.Context(), name, 1, job).Val() == 1 {
					return jid
				}
			}
		}
	}
	t.Fatalf("the process that was killed had no job: %v", lists)
	return ""
}
