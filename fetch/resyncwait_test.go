package fetch

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// beforePipe calls f before each pipeline.
type beforePipe struct{ f func(cmds []redis.Cmder) }

func (beforePipe) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (beforePipe) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b beforePipe) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.f(cmds)
		return next(ctx, cmds)
	}
}

// While a resync reads a waiting list no blocked move begins: what it brought would be
// found in the list, not in hand, and run twice.
func TestNoMoveBeginsWhileItsListIsCompared(t *testing.T) {
	rdb, _ := redistest.New(t)
	fetcherOf, err := NewReliable(Env{Redis: rdb, Identity: "h:1:aa", Capsule: "default", Queues: Strict{"a"}, Lease: time.Minute, Logger: zerolog.Nop()})
	harness.OK(t, err)
	f := fetcherOf.(*fetcher)
	harness.OK(t, f.Open(t.Context()))
	harness.Must(f.Take(t.Context(), 1, nil))(t)
	p := f.cur.indexes[0]
	w := p.waiters[0]
	may := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.waits++ // as if somebody waited
		defer func() { f.waits-- }()
		return w.mayLocked()
	}
	compared := 0
	rdb.AddHook(beforePipe{func(cmds []redis.Cmder) {
		if cmds[0].Name() == "llen" {
			if compared++; may() {
				t.Error("a move may begin while its list is compared")
			}
		}
	}})
	p.doubt = true
	harness.Must(f.Take(t.Context(), 1, nil))(t)
	if compared != 1 || !may() {
		t.Errorf("compared %d times, a move may begin: %v", compared, may())
	}
}

// A comparison that broke off does not go on when a blocked move has brought a job since:
// the job is in hand.
func TestAComparisonBeginsAnewAfterAMove(t *testing.T) {
	rdb, _ := redistest.New(t)
	fetcherOf, err := NewReliable(Env{Redis: rdb, Identity: "h:1:aa", Capsule: "default", Queues: Strict{"a"}, Lease: time.Minute, Logger: zerolog.Nop()})
	harness.OK(t, err)
	f := fetcherOf.(*fetcher)
	harness.OK(t, f.Open(t.Context()))
	harness.Must(f.Take(t.Context(), 1, nil))(t)
	p := f.cur.indexes[0]
	w := p.waiters[0]
	rdb.LPush(t.Context(), w.list.key, "first")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the reply does not come
	if err := p.withCallLock(t.Context(), func() error { return p.compare(ctx, w.list, 1) }); err == nil || p.partial == nil {
		t.Fatalf("compared: %v, %v", err, p.partial)
	}
	rdb.LPush(t.Context(), "queue:a", "second")
	f.mu.Lock()
	w.open, f.waits = true, 1
	f.mu.Unlock()
	w.move(t.Context(), time.Second)
	f.mu.Lock()
	f.waits = 0
	f.mu.Unlock()
	harness.OK(t, p.withCallLock(t.Context(), func() error { return p.compare(t.Context(), w.list, 2) }))
	got := map[string]int{}
	for _, u := range mustTake(t, f, 10) {
		got[string(u.Payload)]++
	}
	if len(got) != 2 || got["first"] != 1 || got["second"] != 1 {
		t.Errorf("took %v", got)
	}
}

// A job that a wait has brought is settled while the next wait is open; its destination refuses it, and the reply is lost.
// It stays in hand and is settled again: nobody is given it a second time. One that was not refused is gone.
func TestALostReplyWhileAWaitIsOpen(t *testing.T) {
	for _, refused := range []bool{true, false} {
		rdb, _ := redistest.New(t)
		known(t, rdb)
		l := &lostReply{}
		f := mustOpen(t, testEnv(hooked(t, rdb, l), Strict{"a"}))
		open := func(want bool) {
			t.Helper()
			harness.Await(t, "a wait is open, or is not", func() bool {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.cur.waiters[0].open == want
			})
		}
		mustTake(t, f, 1)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				_ = f.Wait(ctx, time.Minute)
			}
		}()
		open(true)
		fillQueue(t, rdb, "a", 1)
		var units []Unit
		harness.Await(t, "the wait has brought the job", func() bool {
			units = mustTake(t, f, 1)
			return len(units) == 1
		})
		open(true)
		if refused {
			harness.OK(t, rdb.Set(ctx, "queue:b", "of another type", 0).Err())
		}
		ack := Move{Unit: units[0], To: ToNone, Effects: &Effects{Push: []Push{{Queue: "b", Payload: []byte("child")}}}}
		l.arm(hashOf("settle"), true)
		if _, err := f.Settle(ctx, []Move{ack}); err == nil {
			t.Fatal("no error")
		}
		if _, err := f.Settle(ctx, []Move{ack}); (err != nil) != refused {
			t.Errorf("refused %v: settled again: %v", refused, err)
		}
		cancel()
		<-done
		open(false)
		harness.EqualList(t, "brought again", payloads(mustTake(t, f, 1)), nil)
		if refused {
			harness.OK(t, rdb.Del(t.Context(), "queue:b").Err())
			settleAll(t, f, ack)
		}
		harness.EqualList(t, "pushed", rdb.LRange(t.Context(), "queue:b", 0, -1).Val(), []string{"child"})
		noClaims(t, rdb)
	}
}
