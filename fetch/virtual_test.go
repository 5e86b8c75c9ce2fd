package fetch_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
)

// inBubble runs a test in virtual time on an embedded Redis; the bubble fails
// it when a goroutine is left in the end.
func inBubble(t *testing.T, test func(t *testing.T, mr *miniredis.Miniredis, env fetch.Env)) {
	synctest.Test(t, func(t *testing.T) {
		mr := miniredis.NewMiniRedis()
		defer mr.Close()
		rdb := redis.NewClient(&redis.Options{
			Addr:   "127.0.0.1:0", // never dialled
			Dialer: func(context.Context, string, string) (net.Conn, error) { return mr.Dial() },
			// As virtual time jumps, a read may take long.
			Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Hour,
		})
		defer func() { _ = rdb.Close() }()
		test(t, mr, fetch.Env{
			Redis: rdb, Identity: "h:1:aa", Capsule: "default",
			Queues: fetch.Strict{"a", "b"}, Lease: 30 * time.Second, Logger: zerolog.Nop(),
		})
	})
}

func TestWaitInVirtualTime(t *testing.T) {
	for name, factory := range map[string]fetch.Factory{"reliable": fetch.NewReliable, "basic": fetch.NewBasic} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, mr *miniredis.Miniredis, env fetch.Env) {
				ctx := t.Context()
				f := harness.Must(factory(env))(t)
				harness.OK(t, f.Open(ctx))
				took := func(what string, want time.Duration, wantErr error, wait func() error) {
					t.Helper()
					begun := time.Now()
					err := wait()
					if got := time.Since(begun); got != want || !errors.Is(err, wantErr) {
						t.Errorf("%s: took %v (%v), expected %v (%v)", what, got, err, want, wantErr)
					}
				}
				var units []fetch.Unit
				// wait is as long as nothing comes; single calls may end early for nothing.
				wait := func(ctx context.Context, d time.Duration) error {
					for begun := time.Now(); time.Since(begun) < d && len(units) == 0; {
						if err := f.Wait(ctx, d-time.Since(begun)); err != nil {
							return err
						}
						var err error
						if units, err = f.Take(ctx, 5, nil); err != nil {
							return err
						}
					}
					return nil
				}
				took("empty queues", 1500*time.Millisecond, nil, func() error { return wait(ctx, 1500*time.Millisecond) })
				took("a push", 900*time.Millisecond, nil, func() error {
					time.AfterFunc(900*time.Millisecond, func() { _, _ = mr.Lpush("queue:b", "job") })
					return wait(ctx, 1500*time.Millisecond)
				})
				if len(units) != 1 {
					t.Fatalf("took %v", units)
				}
				acks := units
				units = nil
				took("a cancel", 700*time.Millisecond, context.Canceled, func() error {
					ctx, cancel := context.WithCancel(ctx)
					time.AfterFunc(700*time.Millisecond, cancel)
					return wait(ctx, time.Minute)
				})
				harness.Must(f.Take(ctx, 0, acks))(t)
				begun := time.Now()
				if left, err := f.Close(ctx); left != 0 || err != nil {
					t.Errorf("close: %d, %v", left, err)
				}
				if took := time.Since(begun); took > 2500*time.Millisecond { // the embedded server ends no wait
					t.Errorf("close took %v", took)
				}
			})
		})
	}
}

// Waiting for minutes is many blocked moves, one after the other, and a look every 2 s,
// which tells what is paused; a push ends the wait under way.
func TestLongWaitWakes(t *testing.T) {
	inBubble(t, func(t *testing.T, mr *miniredis.Miniredis, env fetch.Env) {
		ctx := t.Context()
		f := harness.Must(fetch.NewReliable(env))(t)
		begun := time.Now()
		time.AfterFunc(123*time.Second, func() { _, _ = mr.Lpush("queue:a", "job") })
		for got := 0; got == 0; {
			wait := time.Now()
			harness.OK(t, f.Renew(ctx))
			harness.OK(t, f.Wait(ctx, time.Hour))
			if took := time.Since(wait); took > 2*time.Second {
				t.Errorf("no look for %v", took)
			}
			units := harness.Must(f.Take(ctx, 1, nil))(t)
			got = len(units)
		}
		harness.Equal(t, "woke after, expected 123 s", time.Since(begun), 123*time.Second)
		harness.Must(f.Close(ctx))(t)
	})
}

func TestRescueInVirtualTime(t *testing.T) {
	inBubble(t, func(t *testing.T, mr *miniredis.Miniredis, env fetch.Env) {
		ctx := t.Context()
		pass := func(d time.Duration) { // keys age by FastForward, TIME by SetTime
			time.Sleep(d)
			mr.FastForward(d)
			mr.SetTime(time.Now())
		}
		pass(0)
		f := harness.Must(fetch.NewReliable(env))(t)
		for _, p := range []string{"0", "1", "2"} {
			_, _ = mr.Lpush("queue:a", p)
		}
		if units, err := f.Take(ctx, 2, nil); err != nil || len(units) != 2 {
			t.Fatalf("take: %v, %v", units, err)
		}
		r := harness.Must(rescue.New(rescue.Config{Redis: env.Redis, Lease: env.Lease, Logger: zerolog.Nop()}))(t)
		died := time.Now()
		rounds := 0
		for {
			done := harness.Must(r.Rescue(ctx))(t)
			if rounds++; done.Units > 0 {
				if done.Units != 2 || done.Fetchers != 1 || done.Details[0].Queues["a"] != 2 {
					t.Errorf("rescued: %+v", done)
				}
				break
			}
			pass(done.Next)
		}
		if took := time.Since(died); took < 30*time.Second || took > 31*time.Second || rounds > 6 {
			t.Errorf("rescued after %v in %d rounds, expected just after the lease of 30 s", took, rounds)
		}
		if list, _ := mr.List("queue:a"); len(list) != 3 || list[2] != "0" {
			t.Errorf("queue: %q", list)
		}
		if _, err := f.Take(ctx, 1, nil); !errors.As(err, new(*fetch.FencedError)) {
			t.Errorf("take of the fenced fetcher: %v", err)
		}
		if left, err := f.Close(ctx); left != 0 || err != nil {
			t.Errorf("close: %d, %v", left, err)
		}
	})
}
