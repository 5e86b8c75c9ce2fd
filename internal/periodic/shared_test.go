package periodic_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
)

// A tick that sidekiq-scheduler has marked as pushed pushes nothing here, and those that are pushed here have its mark: it
// is the second in decimal, and its key lives for a day.
func TestTicksSharedWithSidekiqScheduler(t *testing.T) {
	for _, overlap := range []troupe.Overlap{"", troupe.OverlapSkip} {
		t.Run("overlap "+string(overlap), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				const marks = "sidekiq-scheduler:pushed:a b:c"
				r.save(t, troupe.Periodic{Name: "a b:c", Cron: "* * * * *", Class: "C", SidekiqScheduler: true, Missed: troupe.MissedAll, Overlap: overlap})
				taken := time.Now().Add(2 * time.Minute)
				harness.OK(t, r.rdb.ZAdd(t.Context(), marks, redis.Z{Score: float64(taken.Unix()), Member: taken.Unix()}).Err())
				for range 3 {
					r.runFor(t, time.Minute)
					e := harness.Must(r.Store.Find(t.Context(), "a b:c", ""))(t)
					harness.Equal(t, "the last tick is ours", e.Last.At.Equal(e.Mark), !e.Mark.Equal(taken))
					r.rdb.Del(t.Context(), r.rdb.Keys(t.Context(), "troupe:lock:*").Val()...) // the job of the tick has ended
				}
				harness.EqualList(t, "pushed", r.pushed(t, "default"), []string{"C 00:01:00", "C 00:03:00"})
				harness.EqualList(t, "told", r.ticks, []string{"a b:c 00:01:00 pushed +0", "a b:c 00:03:00 pushed +0"})
				harness.EqualList(t, "its marks", r.rdb.ZRange(t.Context(), marks, 0, -1).Val(), []string{"946684860", "946684920", "946684980"})
				harness.Equal(t, "they live for", r.rdb.TTL(t.Context(), marks).Val(), 24*time.Hour)
				e := harness.Must(r.Store.Find(t.Context(), "a b:c", ""))(t)
				harness.Equal(t, "the last tick", e.Mark.UTC().Format(time.TimeOnly), "00:03:00")

				// a queue that refuses leaves no mark: the tick is to be pushed still
				r.rdb.Del(t.Context(), keys.Queue("default"))
				harness.OK(t, r.rdb.Set(t.Context(), keys.Queue("default"), "no list", 0).Err())
				r.runFor(t, time.Minute)
				harness.Equal(t, "marks of a tick that was refused", r.rdb.ZCount(t.Context(), marks, "946685040", "946685040").Val(), 0)
				r.rdb.Del(t.Context(), keys.Queue("default"))
				r.runFor(t, time.Second)
				harness.EqualList(t, "pushed when the queue is one", r.pushed(t, "default"), []string{"C 00:04:00"})
			})
		})
	}
}

// What people have disabled on the page of sidekiq-scheduler is disabled here, and what they enable or disable here is so
// there. Ticks of the disabled are not marked for Ruby, which knows of its state itself.
func TestStatesOfSidekiqScheduler(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		state := func() string { return r.rdb.HGet(t.Context(), "sidekiq-scheduler:states", "n").Val() }
		ruby := func(text string) { harness.OK(t, r.rdb.HSet(t.Context(), "sidekiq-scheduler:states", "n", text).Err()) }
		r.save(t, troupe.Periodic{Name: "n", Cron: "15 * * * * *", Class: "C", SidekiqScheduler: true}, troupe.Periodic{Name: "of our own", Cron: "@yearly", Class: "C"})
		r.runFor(t, 14*time.Second)
		ruby(`{"enabled":false}`) // the entry was read before
		r.runFor(t, 2*time.Minute)
		harness.EqualList(t, "told", r.ticks, []string{"n 00:00:15 disabled +0", "n 00:01:15 disabled +0"})
		harness.Equal(t, "marks for Ruby", r.rdb.Exists(t.Context(), "sidekiq-scheduler:pushed:n").Val(), 0)
		e := harness.Must(r.Store.Find(t.Context(), "n", ""))(t)
		harness.Equal(t, "why", e.Why(time.Now()), "it is disabled")

		harness.OK(t, r.Store.Enable(t.Context(), e, true))
		harness.Equal(t, "what Ruby reads", state(), `{"enabled":true}`)
		r.Stale()
		r.runFor(t, time.Minute)
		harness.EqualList(t, "pushed", r.pushed(t, "default"), []string{"C 00:02:15"})

		e = harness.Must(r.Store.Find(t.Context(), "n", ""))(t)
		harness.OK(t, r.Store.Enable(t.Context(), e, false))
		harness.Equal(t, "what Ruby reads", state(), `{"enabled":false}`)
		ruby(`{"enabled":true}`)
		r.runFor(t, time.Minute) // seen within 30 s
		harness.EqualList(t, "pushed when Ruby has enabled it", r.pushed(t, "default"), []string{"C 00:02:15", "C 00:03:15"})

		harness.OK(t, r.rdb.Del(t.Context(), "sidekiq-scheduler:states").Err())
		harness.OK(t, r.rdb.Set(t.Context(), "sidekiq-scheduler:states", "no hash", 0).Err())
		e = harness.Must(r.Store.Find(t.Context(), "n", ""))(t)
		harness.ErrorHas(t, "an entry without a state", e.Fault, "WRONGTYPE")
		harness.OK(t, harness.Must(r.Store.Find(t.Context(), "of our own", ""))(t).Fault)
	})
}
