package e2e

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

func TestTermAndIntEndAnIdleProcess(t *testing.T) {
	forBoth(t, func(t *testing.T, prog program) {
		// idle returns the keys that the process has left behind, and those of them
		// that stay for ever.
		idle := func(sig syscall.Signal) (left, forever []string) {
			rdb, url := redistest.New(t)
			p := prog.start(t, url, 25*time.Second)
			identity := p.Ready()
			testkit.Await(t, "the first beat", func() bool { return rdb.SIsMember(t.Context(), "processes", identity).Val() })
			began := time.Now()
			p.Signal(sig)
			if code := p.Exit(soon); code != 0 {
				t.Errorf("%v: exit code %d", sig, code)
			}
			took := p.Ended().Sub(began)
			t.Logf("%v: ended after %s", sig, took)
			if took > 15*time.Second { // the timeout is 25 s
				t.Errorf("%v: an idle process took %s to end", sig, took)
			}
			if strings.Contains(p.Stderr(), "did not stop in time") {
				t.Errorf("%v: some of it has not stopped", sig)
			}
			for _, key := range rdb.Keys(t.Context(), "*").Val() {
				if strings.HasPrefix(key, "stat:") {
					continue
				}
				if rdb.TTL(t.Context(), key).Val() == -1 {
					forever = append(forever, key)
				}
				// the stop is recorded for three days, that a search has been made for ten minutes
				if !strings.HasPrefix(key, "troupe:flight") && key != keys.Search {
					left = append(left, key)
				}
			}
			return left, forever
		}
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			left, forever := idle(sig)
			// It does not wait long for a Redis that is slow to take back its leases:
			// they end by themselves.
			for try := 1; try < 3 && len(left) > 0 && len(forever) == 0; try++ {
				t.Logf("%v: keys %q were left, once more", sig, left)
				left, forever = idle(sig)
			}
			if len(left)+len(forever) > 0 {
				t.Errorf("%v: keys %q are left, %q without a TTL", sig, left, forever)
			}
		}
	})
}

func TestTermWaitsForARunningJob(t *testing.T) {
	forBoth(t, func(t *testing.T, prog program) {
		rdb, url := redistest.New(t)
		p := prog.start(t, url, 25*time.Second)
		began := time.Now()
		jid, _ := push(t, rdb, "Nap", "[1.5]")
		p.awaitBegun(jid)
		p.Signal(syscall.SIGTERM)
		p.AwaitLog("stop: waiting for running jobs")
		waiting, _ := push(t, rdb, "Record", "[1]")
		harness.Equal(t, "exit code", p.Exit(soon), 0)
		if took := p.Ended().Sub(began); took < 1500*time.Millisecond || took > 10*time.Second {
			t.Errorf("ended %s after the push of a job of 1.5 s", took)
		}
		if got := harness.Strs(harness.Drain(t, p), "finished_jids"); !slices.Equal(got, []string{jid}) {
			t.Errorf("finished %v, want %s", got, jid)
		}
		if at := where(t, rdb, waiting); at != "queue:default" || where(t, rdb, jid) != "" {
			t.Errorf("the job pushed during the stop is in %q, the finished one in %q", at, where(t, rdb, jid))
		}
		harness.Equal(t, "stat:processed is", rdb.Get(t.Context(), "stat:processed").Val(), "1")
	})
}

func TestAnUnresponsiveJobIsRequeuedAtTheDeadline(t *testing.T) {
	forBoth(t, func(t *testing.T, prog program) {
		rdb, url := redistest.New(t)
		p := prog.start(t, url, time.Second)
		jid, raw := push(t, rdb, "Unresponsive", "[60]", client.Set("bid", "é<&>"))
		p.awaitBegun(jid)
		p.Signal(osproc.Quiet)
		p.AwaitLog("quiet: no new jobs will be fetched")
		for range 3 {
			push(t, rdb, "Record", "[]") // older than the requeue, newer than the job
		}
		began := time.Now()
		p.Signal(syscall.SIGTERM)
		p.AwaitLog("requeued the jobs that were still running")
		deadline := time.Since(began)
		if next := rdb.LIndex(t.Context(), "queue:default", -1).Val(); next != raw {
			t.Errorf("the job popped next\n is %s\nwant %s", next, raw)
		}
		p.Signal(syscall.SIGTERM) // changes nothing
		p.Signal(syscall.SIGINT)
		harness.Equal(t, "exit code", p.Exit(soon), 0)
		took := p.Ended().Sub(began)
		t.Logf("requeued after %s, ended after %s", deadline, took)
		if deadline < 900*time.Millisecond || deadline > 15*time.Second { // the job lasts a minute
			t.Errorf("requeued %s after TERM, want about 1 s", deadline)
		}
		if least := time.Second + prog.hard; took < least-100*time.Millisecond || took > least+15*time.Second {
			t.Errorf("ended %s after TERM, want about %s", took, least)
		}
		report := harness.Drain(t, p)
		abandoned := []string{jid}
		if prog.name == "command" {
			abandoned = nil
		}
		if got := harness.Strs(report, "requeued"); !slices.Equal(got, []string{jid}) {
			t.Errorf("requeued %v, want %s", got, jid)
		}
		harness.EqualList(t, "abandoned", harness.Strs(report, "abandoned"), abandoned)
		if left := leftovers(t, rdb); len(left) != 4 {
			t.Errorf("left in Redis: %v", left)
		}
	})
}

// A job that listens to its context ends the process soon after the deadline.
func TestAnObedientJobEndsTheGrace(t *testing.T) {
	forBoth(t, func(t *testing.T, prog program) {
		took := obedient(t, prog)
		for try := 1; try < 3 && took > 3*time.Second; try++ { // a loaded machine is not slow every time
			took = obedient(t, prog)
		}
		if took < 900*time.Millisecond || took > 3*time.Second {
			t.Errorf("ended after %s, want about 1 s", took)
		}
	})
}

// obedient stops a process with such a job and returns how long that took.
func obedient(t *testing.T, prog program) time.Duration {
	t.Helper()
	rdb, url := redistest.New(t)
	p := prog.start(t, url, time.Second)
	jid, raw := push(t, rdb, "Nap", "[60]")
	p.awaitBegun(jid)
	took := p.Stop(soon)
	t.Logf("ended after %s", took)
	report := harness.Drain(t, p)
	if got := harness.Strs(report, "requeued"); !slices.Equal(got, []string{jid}) || len(harness.Strs(report, "abandoned")) != 0 {
		t.Errorf("drain report %v", report)
	}
	if got := rdb.LIndex(t.Context(), "queue:default", -1).Val(); got != raw {
		t.Errorf("requeued\n     %s\nwant %s", got, raw)
	}
	harness.Equal(t, "stat:failed is, want 1: an interrupted run counts, as in Sidekiq", rdb.Get(t.Context(), "stat:failed").Val(), "1")
	return took
}

func TestTSTPStopsFetchingAndNothingElse(t *testing.T) {
	forBoth(t, func(t *testing.T, prog program) {
		rdb, url := redistest.New(t)
		p := prog.start(t, url, 25*time.Second)
		identity := p.Ready()
		running, _ := push(t, rdb, "Nap", "[1]")
		p.awaitBegun(running)
		p.Signal(osproc.Quiet)
		testkit.Await(t, "quiet is true", func() bool { return rdb.HGet(t.Context(), identity, "quiet").Val() == "true" })
		waiting, _ := push(t, rdb, "Record", "[]")
		due, _ := push(t, rdb, "Record", "[]", client.In(time.Millisecond))
		testkit.Await(t, "the running job ends", func() bool { return where(t, rdb, running) == "" })
		before := rdb.HGet(t.Context(), identity, "beat").Val()
		p.Signal(osproc.Quiet)
		testkit.Await(t, "another beat", func() bool { return rdb.HGet(t.Context(), identity, "beat").Val() != before })
		if !p.Running() || where(t, rdb, waiting) != "queue:default" || where(t, rdb, due) != "schedule" {
			t.Errorf("running %v, jobs in %q and %q", p.Running(), where(t, rdb, waiting), where(t, rdb, due))
		}
		p.Stop(soon)
	})
}

func TestTTINLogsTreeAndStacks(t *testing.T) {
	forBoth(t, func(t *testing.T, prog program) {
		rdb, url := redistest.New(t)
		p := prog.start(t, url, 25*time.Second)
		jid, _ := push(t, rdb, "Nap", "[60]")
		p.awaitBegun(jid)
		p.Signal(osproc.Dump)
		dump := p.AwaitLog("dump")
		for _, part := range []string{"launcher", "heartbeat", "poller", "rescuer", "processor-0", "Nap " + jid} {
			if !strings.Contains(harness.Str(dump, "tree"), part) {
				t.Errorf("the tree has no %q:\n%s", part, harness.Str(dump, "tree"))
			}
		}
		if !strings.Contains(harness.Str(dump, "goroutines"), "goroutine ") || !strings.Contains(harness.Str(dump, "goroutines"), "Perform") {
			t.Errorf("goroutines: %.500s", harness.Str(dump, "goroutines"))
		}
		push(t, rdb, "Record", "[]")
		testkit.Await(t, "it works on", func() bool { return len(p.Logged("job done")) == 1 })
	})
}

// TERM while Redis does not answer at boot is a stop, not a failure.
func TestTermDuringTheBoot(t *testing.T) {
	t.Parallel()
	l := harness.Must(new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	accepted := make(chan struct{}, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer func() { _ = c.Close() }()
			accepted <- struct{}{}
		}
	}()
	p := daemonSoon(t, "redis://"+l.Addr().String()+"/0", commandConfig)
	select {
	case <-accepted:
	case <-time.After(soon):
		t.Fatal("no connection")
	}
	if took := p.Stop(soon); took > 5*time.Second {
		t.Errorf("ended after %s", took)
	}
}

// Several jobs go back in their order: the oldest is popped first.
func TestRequeueKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	rec := newRecords(t)
	p := startWorker(t, workerSpec{Redis: url, Records: rec.url, Timeout: 500 * time.Millisecond})
	raws := hang(t, rdb, rec, 5)
	p.Stop(soon)
	back := rdb.LRange(t.Context(), "queue:default", 0, -1).Val()
	slices.Reverse(back)
	var want []string
	for _, jid := range slices.Sorted(maps.Keys(raws)) {
		want = append(want, raws[jid])
	}
	if !slices.Equal(back, want) {
		t.Errorf("popped next\n     %v\nwant %v", back, want)
	}
}
