package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	limitjob "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// breakerConfig has jobs under a limit with a breaker. They fail while the file down is there, and do not end while slow is.
const breakerConfig = `
log: json
lease: %[4]d
limits:
  api: {at_once: 5, breaker: {failures: %[2]d, rest: %[3]ds}, classes: [Work]}
handlers:
  Work:
    exec:
      - /bin/sh
      - -c
      - |
        echo "b $TROUPE_JID $(date +%%s%%N)" >> %[1]s/runs
        while [ -e %[1]s/slow ]; do sleep 0.05; done
        [ -e %[1]s/down ]; up=$?
        echo "e $TROUPE_JID $(date +%%s%%N)" >> %[1]s/runs
        [ $up != 0 ]
`

// broken is an API that is down, and the jobs that call it.
type broken struct {
	t    *testing.T
	dir  string
	rdb  *redis.Client
	url  string
	conf string
	base string
}

func newBroken(t *testing.T, failures, rest, lease, jobs int) *broken {
	t.Helper()
	b := &broken{t: t, dir: t.TempDir(), base: keys.LimitBase("", false)}
	b.rdb, b.url = redistest.New(t)
	b.conf = fmt.Sprintf(breakerConfig, b.dir, failures, rest, lease)
	b.set("down")
	for range jobs {
		push(t, b.rdb, "Work", "[]")
	}
	return b
}

func (b *broken) set(file string) {
	b.t.Helper()
	harness.OK(b.t, os.WriteFile(filepath.Join(b.dir, file), nil, 0o600))
}

func (b *broken) unset(file string) {
	b.t.Helper()
	harness.OK(b.t, os.Remove(filepath.Join(b.dir, file)))
}

func (b *broken) runs() []*limitedRun {
	b.t.Helper()
	return limitedRuns(b.t, filepath.Join(b.dir, "runs"))
}

// rests is the end of the rest, zero if the breaker is closed.
func (b *broken) rests() time.Time {
	ends, _ := b.rdb.HGet(b.t.Context(), keys.Rest(b.base, "api"), "ends").Float64()
	return time.UnixMicro(int64(ends * 1e6))
}

// over waits until all jobs are done, and nothing of the breaker is left.
func (b *broken) over(jobs int) {
	b.t.Helper()
	testkit.Await(b.t, "all jobs are done", func() bool {
		retryNow(b.t, b.rdb)
		return len(leftovers(b.t, b.rdb)) == 0 && len(heldJobs(b.t, b.rdb)) == 0
	})
	done := map[string]bool{}
	for _, r := range b.runs() {
		done[r.jid] = done[r.jid] || !r.to.IsZero()
	}
	harness.Equal(b.t, "jobs that have run to their end", len(done), jobs)
	harness.Equal(b.t, "state of the breaker", b.rdb.Exists(b.t.Context(), keys.Rest(b.base, "api")).Val(), 0)
}

// The breaker of a file opens with the third failure. The other jobs are held, and do not fail; one probe goes at the end of each rest,
// until one is done. Then all are let in.
func TestBreakerOfAFile(t *testing.T) {
	t.Parallel()
	const jobs, workers, failures, rest = 12, 4, 3, 2
	b := newBroken(t, failures, rest, 2, jobs)
	p := daemon(t, b.url, b.conf, "-c", fmt.Sprint(workers))
	testkit.Await(t, "the breaker has opened", func() bool { return len(p.Logged("the breaker of a limit is open: no job is let in")) == 1 })
	opened := b.rests().Add(-rest * time.Second)
	testkit.Await(t, "three probes have failed", func() bool { return len(p.Logged("the breaker of a limit stays open")) == 3 })
	b.unset("down")
	repaired := time.Now()
	failed := b.rdb.ZCard(t.Context(), "retry").Val()
	held := int64(len(heldJobs(t, b.rdb)))
	if failed > failures-1+workers+3 || failed+held < jobs-1 { // one may be the next probe
		t.Errorf("%d jobs have failed, %d are held, of %d: expected those before the last failure, what ran then, and three probes", failed, held, jobs)
	}
	var probes []time.Time
	for _, r := range b.runs() {
		if r.from.After(opened.Add(100*time.Millisecond)) && r.from.Before(repaired) {
			probes = append(probes, r.from)
		}
	}
	for i, at := range probes {
		before := opened
		if i > 0 {
			before = probes[i-1]
		}
		if at.Sub(before) < rest*time.Second-100*time.Millisecond {
			t.Errorf("a job begins %s after the one before it, or the opening, and the limit rests for %d s", at.Sub(before), rest)
		}
	}
	testkit.Await(t, "the breaker has closed", func() bool { return len(p.Logged("the breaker of a limit is closed: jobs are let in")) == 1 })
	b.over(jobs)
	p.Stop(soon)
	t.Logf("%d runs of %d jobs, %d failed; probes began %v after the opening", len(b.runs()), jobs, failed, since(opened, probes))
}

func since(from time.Time, all []time.Time) (d []time.Duration) {
	for _, at := range all {
		d = append(d, at.Sub(from).Round(10*time.Millisecond))
	}
	return d
}

// A daemon dies by kill -9 while its probe runs. The probe comes back. Before the end of its rest it is the probe still; a rest that ends
// sooner lets the next one in. Nothing is lost, and nothing is held for ever.
func TestProbeOfAKilledDaemon(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		rest, lease int
		still       bool // it comes back before the end of the rest
	}{{"and is back while the limit rests", 40, 2, true}, {"and is back later", 2, 10, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const jobs = 5
			b := newBroken(t, 1, c.rest, c.lease, jobs)
			dies := daemon(t, b.url, b.conf, "-c", "1")
			testkit.Await(t, "the others are held", func() bool { return len(heldJobs(t, b.rdb)) == jobs-1 })
			b.set("slow")
			b.unset("down")
			harness.Must(limitjob.Rest(context.Background(), b.rdb, b.base, "api", time.Millisecond))(t) // an operator's: the probe may come
			before := len(b.runs())
			testkit.Await(t, "the probe runs", func() bool { return len(b.runs()) > before })
			probe, ends := b.runs()[before], b.rests()
			lives := daemonSoon(t, b.url, b.conf, "-c", "2")
			testkit.Await(t, "another daemon runs", func() bool { return b.rdb.SCard(t.Context(), keys.Processes).Val() == 2 })
			dies.Dull = true
			dies.Kill()
			killed := time.Now()
			b.unset("slow")
			b.over(jobs)
			var next *limitedRun
			for _, r := range b.runs()[before+1:] {
				if r.from.After(killed) {
					next = r
					break
				}
			}
			switch {
			case next == nil:
				t.Fatal("nothing has run after the kill")
			case c.still && (next.jid != probe.jid || next.from.After(ends)):
				t.Errorf("%s begins %s after the kill, expected the probe %s before the rest ends, after %s", next.jid, next.from.Sub(killed), probe.jid, ends.Sub(killed))
			case !c.still && (next.jid == probe.jid || next.from.Before(ends)):
				t.Errorf("%s begins %s after the kill, expected another one than %s once the rest has ended, after %s", next.jid, next.from.Sub(killed), probe.jid, ends.Sub(killed))
			}
			lives.Stop(soon)
			t.Logf("the next run began %s after the kill, the rest ended after %s", next.from.Sub(killed).Round(10*time.Millisecond), ends.Sub(killed).Round(10*time.Millisecond))
		})
	}
}
