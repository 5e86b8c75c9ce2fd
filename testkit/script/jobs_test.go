package script_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/script"
)

func TestEachStepEndsAsItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rdb := testkit.NewMemory(t).Client
		s := script.New(t)
		var cancelled int
		var cause error
		s.OnCancel = func(ctx context.Context) { cancelled, cause = cancelled+1, context.Cause(ctx) }
		k := testkit.Start(t, actors.Config{Redis: rdb, Registry: s.Registry(), Capsules: []actors.Capsule{{Concurrency: 2}}}, testkit.Strict())
		k.Allow(testkit.Crashes("launcher/default/processor-*").Times(2), testkit.Events[event.JobsAbandoned]().Times(1))
		outcome := map[string]string{}
		cancel := k.Subscribe(func(e event.Event) {
			switch e := e.(type) {
			case event.JobDone:
				outcome[e.Job.JID] = "done"
			case event.JobRetried:
				outcome[e.Job.JID] = "retried"
			case event.JobDied:
				outcome[e.Job.JID] = "died"
			case event.JobDropped:
				outcome[e.Job.JID] = "dropped"
			}
		})
		defer cancel()
		want := map[string]string{}
		for _, c := range []struct {
			step script.Step
			end  string
		}{
			{script.OK(), "done"},
			{script.Fail(), "retried"},
			{script.Panic(), "retried"},
			{script.Step{Do: "goexit"}, "retried"},
			{script.Step{Do: "discard"}, "dropped"},
			{script.Step{Do: "kill"}, "died"},
			{script.Slow(5 * time.Second), "done"},
			{script.Step{Do: "dance"}, "died"},
		} {
			want[k.Push(c.step)] = c.end
		}
		k.Await("all ended", func() bool { return len(s.Runs()) == len(want) && s.Running() == 0 })
		k.Await("all settled", k.Settled)
		synctest.Wait()
		for jid, end := range want {
			if outcome[jid] != end || s.Runs()[jid] != 1 || !s.Ended(jid) {
				t.Errorf("job %s: %q after %d runs, want %q after one", jid, outcome[jid], s.Runs()[jid], end)
			}
		}
		hang, stuck := k.Push(script.Hang()), k.Push(script.Step{Do: "unresponsive"})
		k.Await("both run", func() bool { return s.Running() == 2 })
		r := k.Stop()
		if len(r.Requeued) != 2 || len(r.Abandoned) != 1 || r.Abandoned[0].JID != stuck {
			t.Errorf("drain report: %s", r)
		}
		if !s.Ended(hang) || s.Ended(stuck) || cancelled != 1 || s.Most() != 2 {
			t.Errorf("hang ended %t, stuck ended %t, %d cancelled, most %d", s.Ended(hang), s.Ended(stuck), cancelled, s.Most())
		}
		if cause == nil || !strings.Contains(cause.Error(), "shutting down") {
			t.Errorf("cause %v", cause)
		}
	})
}

// A Jobs of before the bubble does not stop its time.
func TestJobsOfBeforeTheBubble(t *testing.T) {
	jobs := script.New(t)
	testkit.Virtual(t, actors.Config{Registry: jobs.Registry()}, func(t *testing.T, k *testkit.Kit) {
		hang, stuck := k.Push(script.Hang()), k.Push(script.Step{Do: "unresponsive"})
		k.Await("both run", func() bool { return jobs.Running() == 2 })
		time.Sleep(time.Minute)
		if jobs.Ended(hang) || jobs.Ended(stuck) {
			t.Error("a job has ended by itself")
		}
		jobs.Release()
		k.Await("both end", func() bool { return jobs.Ended(hang) && jobs.Ended(stuck) })
		next := k.Push(script.Step{Do: "unresponsive"})
		k.Await("one after the release ends", func() bool { return jobs.Ended(next) })
	})
}
