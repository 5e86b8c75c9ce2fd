package periodic_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/periodic"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// While the job of a tick is there the next ticks push none, and say why. The lock goes with the job.
func TestTicksThatOverlapAreSkipped(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.save(t, troupe.Periodic{Name: "n", Cron: "* * * * *", Class: "C", Overlap: troupe.OverlapSkip},
			troupe.Periodic{Name: "other", Cron: "0 1 * * *", Class: "C", Overlap: troupe.OverlapSkip})
		r.runFor(t, 150*time.Second) // two ticks
		harness.EqualList(t, "pushed", r.pushed(t, "default"), []string{"C 00:01:00"})
		harness.EqualList(t, "told", r.ticks, []string{"n 00:01:00 pushed +0", "n 00:02:00 overlapped +0"})
		e := harness.Must(r.Store.Find(t.Context(), "n", ""))(t)
		harness.Equal(t, "why", e.Why(time.Now()), "its job of an earlier tick waited or ran still at its tick of 2000-01-01 00:02:00 UTC (overlap: skip)")
		harness.Equal(t, "pushed last", e.Pushed.UTC().Format(time.TimeOnly), "00:01:00")
		harness.Equal(t, "jobs in its history", len(harness.Must(r.Store.Pushes(t.Context(), e))(t)), 1)
		p := harness.Must(troupe.ParsePayload([]byte(r.rdb.RPop(t.Context(), "queue:default").Val())))(t)
		lock := job.LockOf(p, false)
		if lock == nil || lock.Until != troupe.UntilDone || r.rdb.Get(t.Context(), lock.Key).Val() != p.JID() {
			t.Fatalf("the lock of %s: %+v", p.Bytes(), lock)
		}
		harness.Equal(t, "the lock that has refused", r.rdb.HGet(t.Context(), keys.Conflicts, lock.Key).Val(), p.JID())
		harness.Check(t, r.rdb.Del(t.Context(), lock.Key).Err()) // it is done
		r.runFor(t, time.Minute)
		harness.EqualList(t, "pushed then", r.pushed(t, "default"), []string{"C 00:03:00"})

		// A queue that refuses leaves no lock.
		harness.Check(t, r.rdb.FlushAll(t.Context()).Err())
		harness.Check(t, r.rdb.Set(t.Context(), "queue:default", "x", 0).Err())
		r.save(t, troupe.Periodic{Name: "n", Cron: "* * * * *", Class: "C", Overlap: troupe.OverlapSkip})
		r.runFor(t, time.Minute)
		if len(r.wrong) == 0 || !strings.Contains(r.wrong[0], "WRONGTYPE") || len(r.rdb.Keys(t.Context(), "troupe:lock:*").Val()) != 0 {
			t.Errorf("%q, locks %q", r.wrong, r.rdb.Keys(t.Context(), "troupe:lock:*").Val())
		}
		harness.Check(t, r.rdb.Del(t.Context(), "queue:default").Err())
		r.runFor(t, 30*time.Second)
		harness.Equal(t, "pushed when the queue is mended", len(r.pushed(t, "default")), 1)
		synctest.Wait()
	})
}

func TestOverlapOnACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	s := &periodic.Store{Redis: rdb}
	harness.ErrorHas(t, "save", s.Save(t.Context(), troupe.Periodic{Name: "n", Cron: "@daily", Class: "C", Overlap: troupe.OverlapSkip}),
		`periodic job "n": Overlap: got "skip", want nothing on a Redis Cluster`)
}
