package periodic_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/periodic"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/memredis"
)

// rig is a Redis in virtual time with a ticker.
type rig struct {
	*periodic.Ticker
	rdb   *redis.Client
	mem   *memredis.Server
	mu    sync.Mutex
	ticks []string // what was told
	wrong []string
}

// inBubble begins at 2000-01-01 00:00:00 UTC.
func inBubble(t *testing.T, f func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		m := memredis.New(t)
		rdb := redis.NewClient(m.Options())
		defer func() { _ = rdb.Close() }()
		f(t, newRig(rdb, m))
	})
}

func newRig(rdb *redis.Client, m *memredis.Server) *rig {
	r := &rig{rdb: rdb, mem: m}
	r.Ticker = &periodic.Ticker{
		Store: &periodic.Store{Redis: rdb, Zone: time.UTC}, Client: client.New(rdb),
		Ticked: func(e *periodic.Entry, tick periodic.Tick) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ticks = append(r.ticks, fmt.Sprintf("%s %s %s +%d", e.Name, tick.At.UTC().Format("15:04:05"), tick.What, tick.Missed))
		},
		Wrong: func(e *periodic.Entry, why error) { r.wrong = append(r.wrong, e.Name+": "+why.Error()) },
	}
	return r
}

// runFor carries out what is due for so long.
func (r *rig) runFor(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		wait, err := r.Step(t.Context())
		harness.OK(t, err)
		time.Sleep(min(max(wait, time.Millisecond), time.Until(end)))
	}
	_, err := r.Step(t.Context())
	harness.OK(t, err)
}

// pushed are the ticks of the jobs in a queue, the oldest first.
func (r *rig) pushed(t *testing.T, queue string) (ticks []string) {
	t.Helper()
	for _, raw := range slices.Backward(harness.Must(r.rdb.LRange(t.Context(), keys.Queue(queue), 0, -1).Result())(t)) {
		p := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
		at, ok := troupe.Tick(p)
		harness.Equal(t, "has a tick", ok, true)
		ticks = append(ticks, p.Class()+" "+at.UTC().Format(time.TimeOnly))
	}
	return ticks
}

func (r *rig) save(t *testing.T, list ...troupe.Periodic) {
	t.Helper()
	harness.OK(t, r.Store.Save(t.Context(), list...))
	r.Stale()
}

func TestATickPushesOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.save(t, troupe.Periodic{Name: "a b:c", Cron: "*/15 * * * *", Class: "Report", Args: []any{1, "x"}, Queue: "low", Retries: troupe.Times(3)})
		other := newRig(r.rdb, r.mem) // two leaders do no harm
		for range 61 * 60 {
			for _, x := range []*rig{r, other} {
				if _, err := x.Step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		harness.EqualList(t, "pushed", r.pushed(t, "low"), []string{"Report 00:15:00", "Report 00:30:00", "Report 00:45:00", "Report 01:00:00"})
		harness.Equal(t, "ticks told", len(r.ticks)+len(other.ticks), 4)
		raw := r.rdb.LIndex(t.Context(), "queue:low", -1).Val()
		p := harness.Must(troupe.ParsePayload([]byte(raw)))(t)
		var fields []string
		for key := range p.Keys() {
			v, _ := p.Get(key)
			fields = append(fields, key+"="+string(v))
		}
		slices.Sort(fields)
		want := []string{"args=[1,\"x\"]", "class=\"Report\"", "created_at=946685700.0", "enqueued_at=946685700.0", "jid=\"" + p.JID() + "\"", "queue=\"low\"", "retry=3", "troupe_periodic=\"a b:c\"", "troupe_tick=\"2000-01-01T00:15:00Z\""}
		harness.EqualList(t, "the job", fields, want)
		harness.Equal(t, "the queue is known", r.rdb.SIsMember(t.Context(), keys.Queues, "low").Val(), true)
		e := harness.Must(r.Store.Find(t.Context(), "a b:c", ""))(t)
		harness.Equal(t, "next", e.Next.UTC().Format(time.DateTime), "2000-01-01 01:15:00")
		harness.Equal(t, "pushed", e.Pushed.UTC().Format(time.DateTime), "2000-01-01 01:00:00")
		last := harness.Must(r.Store.Pushes(t.Context(), e))(t)
		harness.Equal(t, "history", len(last), 4)
		harness.Equal(t, "the oldest of it", last[3].JID, p.JID())
	})
}

// What comes of ten ticks of a minute that nobody was there for, and of those that follow.
func TestMissedTicks(t *testing.T) {
	for missed, want := range map[troupe.Missed]string{
		"":                     "missed +9",
		troupe.MissedSkip:      "missed +9",
		troupe.MissedLast:      "pushed +9",
		troupe.MissedAll:       "pushed +0 ×10",
		troupe.MissedAll + "4": "pushed +6, pushed +0 ×3",
	} {
		t.Run(string(missed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				spec := troupe.Periodic{Name: "n", Cron: "1-10 * * * *", Class: "C", Missed: missed}
				if missed == "all4" {
					spec.Missed, spec.MissedMax = troupe.MissedAll, 4
				}
				r.save(t, spec)
				r.runFor(t, time.Second)
				time.Sleep(12 * time.Minute) // 00:12:01
				r.runFor(t, time.Second)
				var told []string
				for _, line := range r.ticks {
					told = append(told, strings.Join(strings.Fields(line)[2:], " "))
				}
				harness.Equal(t, "told", counted(told), want)
				before := len(r.pushed(t, "default"))
				r.runFor(t, 50*time.Minute) // 01:02
				harness.Equal(t, "jobs of the next ticks", len(r.pushed(t, "default"))-before, 2)
			})
		})
	}
}

// counted joins a list, and what comes several times in a row once.
func counted(list []string) string {
	var out []string
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n] == list[i] {
			n++
		}
		text := list[i]
		if n > 1 {
			text += fmt.Sprintf(" ×%d", n)
		}
		out, i = append(out, text), i+n
	}
	return strings.Join(out, ", ")
}

// Enabling replays nothing, whoever enables.
func TestDisabledTicksAreMarked(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.save(t, troupe.Periodic{Name: "n", Cron: "* * * * *", Class: "C", Disabled: true, Missed: troupe.MissedAll})
		r.runFor(t, 3*time.Minute)
		harness.EqualList(t, "pushed", r.pushed(t, "default"), nil)
		r.rdb.HSet(t.Context(), "cron_job:default:n", "status", "enabled") // as Ruby's page does it, without a word to us
		r.runFor(t, 2*time.Minute)
		harness.EqualList(t, "pushed", r.pushed(t, "default"), []string{"C 00:04:00", "C 00:05:00"})
		r.rdb.HSet(t.Context(), "cron_job:default:n", "status", "disabled")
		r.runFor(t, 2*time.Minute)
		harness.Equal(t, "no more", len(r.pushed(t, "default")), 2)
	})
}

// What Redis refuses is tried again, and told once; other entries go on.
func TestATickThatRedisRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.rdb.Set(t.Context(), "queue:bad", "no list", 0)
		r.save(t, troupe.Periodic{Name: "a", Cron: "* * * * *", Class: "A", Queue: "bad"}, troupe.Periodic{Name: "b", Cron: "* * * * *", Class: "B"})
		r.runFor(t, 90*time.Second) // which is no fault of Redis
		harness.EqualList(t, "pushed", r.pushed(t, "default"), []string{"B 00:01:00"})
		harness.Equal(t, "told", len(r.wrong), 1)
		r.rdb.Del(t.Context(), "queue:bad")
		r.runForWith(t, 20*time.Second)
		harness.EqualList(t, "pushed", r.pushed(t, "bad"), []string{"A 00:01:00"})
	})
}

// A tick that is tried again has the queue that middleware gave its job, and obeys a change meanwhile.
func TestATickThatIsTriedAgain(t *testing.T) {
	for status, want := range map[string][]string{"enabled": {"A 00:01:00", "A 00:02:00"}, "disabled": nil} {
		t.Run(status, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.Client = client.New(r.rdb, client.WithMiddleware(func(next client.PushFunc) client.PushFunc {
					return func(ctx context.Context, p *troupe.Payload) error {
						p.SetString("queue", "chosen")
						return next(ctx, p)
					}
				}))
				r.save(t, troupe.Periodic{Name: "a", Cron: "* * * * *", Class: "A"})
				time.Sleep(59 * time.Second)
				r.runFor(t, 0) // the entries are read now, and not again at the tick
				r.mem.SetError("OOM command not allowed")
				r.runForWith(t, 3*time.Second)
				r.mem.SetError("")
				harness.OK(t, r.rdb.HSet(t.Context(), "cron_job:default:a", "status", status).Err())
				r.runForWith(t, 60*time.Second)
				harness.EqualList(t, "in the queue that middleware chose", r.pushed(t, "chosen"), want)
				harness.EqualList(t, "in the entry's", r.pushed(t, "default"), nil)
			})
		})
	}
}

// runForWith is runFor, but for errors, after which it waits.
func (r *rig) runForWith(t *testing.T, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		wait, err := r.Step(t.Context())
		if err != nil {
			wait = time.Second
		}
		time.Sleep(min(max(wait, time.Millisecond), time.Until(end)))
	}
}

func TestSyncTakesAwayItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		ctx, s := t.Context(), r.Store
		one, two := troupe.Periodic{Name: "one", Cron: "@daily", Class: "C"}, troupe.Periodic{Name: "two", Cron: "@daily", Class: "C"}
		r.save(t, troupe.Periodic{Name: "people's", Cron: "@daily", Class: "C"})
		for range 2 {
			harness.EqualList(t, "taken away", harness.Must(s.Sync(ctx, "app", []troupe.Periodic{one, two}))(t), nil)
		}
		harness.EqualList(t, "taken away", harness.Must(s.Sync(ctx, "other", []troupe.Periodic{{Name: "three", Cron: "@daily", Class: "C"}}))(t), nil)
		e := harness.Must(s.Find(ctx, "one", ""))(t)
		harness.OK(t, s.Enable(ctx, e, false))
		harness.EqualList(t, "taken away", harness.Must(s.Sync(ctx, "app", []troupe.Periodic{one}))(t), []string{"two"})
		all, err := s.All(ctx)
		harness.OK(t, err)
		var names []string
		for _, e := range all {
			names = append(names, fmt.Sprint(e.Name, " ", e.Disabled))
		}
		harness.EqualList(t, "entries", names, []string{"one true", "people's false", "three false"})
		known, same, err := s.Written(ctx, "app", []troupe.Periodic{one, two})
		harness.Equal(t, "written", fmt.Sprint(known, same, err), "true false <nil>")
		r.rdb.FlushAll(ctx)
		known, same, err = s.Written(ctx, "app", []troupe.Periodic{one})
		harness.Equal(t, "written", fmt.Sprint(known, same, err), "false false <nil>")
	})
}

// Wrong input is refused with the field, the value and what was expected.
func TestCheck(t *testing.T) {
	for want, p := range map[string]troupe.Periodic{
		`Name: got "", want a name in UTF-8`:                                                      {Cron: "@daily", Class: "C"},
		`Class: got "", want the name of a class`:                                                 {Name: "n", Cron: "@daily"},
		`Missed: got "never", want skip, last or all`:                                             {Name: "n", Cron: "@daily", Class: "C", Missed: "never"},
		`MissedMax: got -1, want a number from 0 to 100000`:                                       {Name: "n", Cron: "@daily", Class: "C", MissedMax: -1},
		`Cron: cron line "0 25 * * *": hour`:                                                      {Name: "n", Cron: "0 25 * * *", Class: "C"},
		`Args: got a value of type int, want a type with a method Class, or a []any beside Class`: {Name: "n", Cron: "@daily", Class: "C", Args: 1},
		`Overlap: got "wait", want skip or nothing`:                                               {Name: "n", Cron: "@daily", Class: "C", Overlap: "wait"},
	} {
		harness.ErrorHas(t, p.Name, periodic.Check(p, time.UTC), want)
	}
}

// The clock of Redis jumps by an hour, and back: each tick is pushed once, those that have been do not come again,
// and while it is behind them the entry says so.
func TestAJumpOfTheClock(t *testing.T) {
	for missed, wants := range map[troupe.Missed]map[time.Duration][]int{ // jobs before, after the jump, after that back, and at last
		troupe.MissedSkip: {time.Hour: {4, 9, 9, 24}, -time.Hour: {4, 4, 9, 79}},
		troupe.MissedAll:  {time.Hour: {4, 69, 69, 84}, -time.Hour: {4, 4, 14, 84}},
	} {
		for jump, want := range wants {
			t.Run(fmt.Sprint(missed, " ", jump), func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					var skew time.Duration
					runFor := func(d time.Duration) {
						t.Helper()
						for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
							r.mem.SetTime(time.Now().Add(skew))
							r.Stale() // SetTime stops the clock of Redis between two calls
							_, err := r.Step(t.Context())
							harness.OK(t, err)
						}
					}
					time.Sleep(2 * time.Hour)
					r.mem.SetTime(time.Now())
					r.save(t, troupe.Periodic{Name: "n", Cron: "* * * * *", Class: "C", Missed: missed, MissedMax: 1000})
					var counts []int
					for _, skew = range []time.Duration{0, jump, 0} {
						runFor(5 * time.Minute)
						counts = append(counts, len(r.pushed(t, "default")))
					}
					e := harness.Must(r.Store.Find(t.Context(), "n", ""))(t)
					if why := e.Why(time.Now()); strings.Contains(why, "is done already: some clock was ahead") != (jump > 0) || e.Next.Before(e.Mark) {
						t.Errorf("after the jump back it says %q, its next tick is %s", why, e.Next)
					}
					skew = 0
					runFor(70 * time.Minute)
					pushed := r.pushed(t, "default")
					counts = append(counts, len(pushed))
					harness.EqualList(t, "jobs", counts, want)
					for i, tick := range pushed {
						if slices.Contains(pushed[:i], tick) {
							t.Errorf("%s twice", tick)
						}
					}
				})
			})
		}
	}
}
