package conformance

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// scheduleFile is what both sides load.
const scheduleFile = `
nightly: {cron: "0 4 * * * Europe/Berlin", class: Known, queue: known}
often: {cron: "* * * * * * UTC", class: Known, queue: known, args: [all]}
`

// A team that moves leaves its config/schedule.yml where it is, and Ruby and troupe load it, each as often as its processes
// start, in either order: an entry is there once, and a tick has one job.
func TestPeriodicFileOfBoth(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"Ruby", "troupe"} {
		t.Run(first+" comes first", func(t *testing.T) {
			t.Parallel()
			rdb, url, _ := periodicSite(t)
			dir := filepath.Join(t.TempDir(), "config")
			harness.OK(t, os.Mkdir(dir, 0o700))
			harness.OK(t, os.WriteFile(filepath.Join(dir, "schedule.yml"), []byte(scheduleFile), 0o600))
			config := filepath.Join(dir, "sidekiq.yml")
			harness.OK(t, os.WriteFile(config, []byte(":tag: both\n:queues: [nothing]\nhandlers: {Known: {builtin: noop}}\n"), 0o600))
			ruby := func() {
				redistest.Ruby(t, url, withCron+`require "yaml"; J.load_from_hash(YAML.load_file("`+filepath.Join(dir, "schedule.yml")+`"))`)
			}
			run := func() (stop func()) {
				was := rdb.HGet(t.Context(), keys.Periodic, "both").Val() // with the time
				p := procs.Troupe(t, nil, "run", "--redis", url, "-C", config)
				id := p.Ready()
				testkit.Await(t, "it leads", func() bool { return rdb.Get(t.Context(), keys.Poller).Val() == id })
				testkit.Await(t, "it has written its entries", func() bool { return rdb.HGet(t.Context(), keys.Periodic, "both").Val() != was })
				return func() { p.Stop(30 * time.Second) }
			}
			if first == "troupe" {
				run()()
			}
			for range 2 {
				ruby()
				run()()
			}
			harness.EqualList(t, "the entries of a namespace", rdb.SMembers(t.Context(), keys.PeriodicSet("default")).Val(), nil)
			harness.Equal(t, "the entries without one", rdb.SCard(t.Context(), keys.PeriodicSet("")).Val(), 2)
			rdb.Del(t.Context(), "queue:known")
			began := time.Now()
			stop := run()
			testkit.Await(t, "three jobs", func() bool { return rdb.LLen(t.Context(), "queue:known").Val() >= 3 })
			stop()
			if jobs, most := rdb.LLen(t.Context(), "queue:known").Val(), int64(time.Since(began).Seconds())+2; jobs > most {
				t.Errorf("%d jobs in %d s", jobs, most)
			}
		})
	}
}
