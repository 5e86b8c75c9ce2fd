package fetch

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// The take that empties a lap fails, before Redis has carried it out or after:
// each job comes once, and none stays in the lap.
func TestLapTakenByACallThatIsLost(t *testing.T) {
	rdb, _ := redistest.New(t)
	for _, applied := range []bool{false, true} {
		if err := rdb.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		lost := &lostTake{applied: applied}
		wire := redis.NewClient(rdb.Options())
		wire.AddHook(lost)
		f := sharing(t, wire, 2, "a", "b")
		mustTake(t, f, 1) // so that Redis knows the script
		rdb.LPush(t.Context(), keys.Lap("a"), "0", "1", "2")
		rdb.LPush(t.Context(), "queue:a", "3")
		lost.next.Store(true)
		if units, err := f.Take(t.Context(), 2, nil); err == nil {
			t.Errorf("a take whose reply was lost: %v", units)
		}
		var got []string
		for range 4 {
			units := mustTake(t, f, 2)
			for _, u := range units {
				got = append(got, string(u.Payload))
			}
			mustTake(t, f, 0, units...)
		}
		if want := []string{"0", "1", "2", "3"}; !slices.Equal(got, want) {
			t.Errorf("applied %v: took %q, want %q", applied, got, want)
		}
	}
}

// lostTake loses the reply of the next take.
type lostTake struct {
	next    atomic.Bool
	applied bool
}

func (l *lostTake) DialHook(next redis.DialHook) redis.DialHook { return next }
func (l *lostTake) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return l.lose(cmds[0], func() error { return next(ctx, cmds) })
	}
}
func (l *lostTake) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return l.lose(cmd, func() error { return next(ctx, cmd) })
	}
}

func (l *lostTake) lose(cmd redis.Cmder, call func() error) error {
	if len(cmd.Args()) < 2 || cmd.Args()[1] != takeScript.hash || !l.next.CompareAndSwap(true, false) {
		return call()
	}
	if l.applied {
		_ = call()
	}
	cmd.SetErr(io.EOF)
	return io.EOF
}

// A rescuer dies at each command of a round that finds jobs in laps, and a command
// of a process that is long dead lands after it: the next round puts back all,
// where it runs next, each job once.
func TestRescuerDiesOverLaps(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	for _, applied := range []bool{false, true} {
		for commands := range 4 {
			where := fmt.Sprintf("died at command %d, carried out: %v", commands, applied)
			if err := rdb.FlushDB(ctx).Err(); err != nil {
				t.Fatal(err)
			}
			rdb.SAdd(ctx, keys.Laps, "a", "b")
			rdb.LPush(ctx, "queue:a", "2", "3")
			rdb.LPush(ctx, keys.Lap("a"), "0", "1")
			rdb.LPush(ctx, keys.Lap("b"), "b0")
			broken := redis.NewClient(rdb.Options())
			broken.AddHook(&death{left: commands, applied: applied})
			dying, err := NewRescuer(RescuerConfig{Redis: broken, Logger: zerolog.Nop()})
			if err != nil {
				t.Fatal(err)
			}
			_, _ = dying.Rescue(ctx)
			_ = broken.Close()
			rdb.LPush(ctx, keys.Lap("b"), "b1")

			mustRescue(t, newRescuer(t, rdb).Rescue)
			if got, want := list(t, rdb, "a"), []string{"0", "1", "2", "3"}; !slices.Equal(got, want) {
				t.Errorf("%s: queue a %q, want %q", where, got, want)
			}
			got := list(t, rdb, "b")
			slices.Sort(got)
			if want := []string{"b0", "b1"}; !slices.Equal(got, want) {
				t.Errorf("%s: queue b %q, want %q", where, got, want)
			}
			if n := rdb.Exists(ctx, keys.Lap("a"), keys.Lap("b")).Val(); n != 0 {
				t.Errorf("%s: %d laps are not empty", where, n)
			}
		}
	}
}

// A lap whose registration was deleted by hand is found by a sweep; one that
// cannot go back, since its queue has the wrong type, does not keep the others.
func TestSweepFindsLaps(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	rdb.Set(ctx, "queue:a", "no list", 0)
	rdb.LPush(ctx, keys.Lap("a"), "a0")
	rdb.LPush(ctx, keys.Lap("b}:c"), "b0")
	done, err := newRescuer(t, rdb).Sweep(ctx)
	if err == nil || done.Laps != 1 {
		t.Errorf("%+v, %v: expected one job back, and an error about the other", done, err)
	}
	if got := list(t, rdb, "b}:c"); !slices.Equal(got, []string{"b0"}) {
		t.Errorf("queue b}:c: %q", got)
	}
	if got := lap(t, rdb, "a"); !slices.Equal(got, []string{"a0"}) {
		t.Errorf("lap of a: %q", got)
	}
}

// Jobs are pushed while a fetcher that waits for them is closed: none stays
// behind in the lap, where nobody would look for a while.
func TestShareClosedWhileJobsCome(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	const jobs = 2
	for round := range 100 {
		env := testEnv(rdb, Strict{"a"})
		env.Share = 4
		f := mustOpen(t, env)
		mustTake(t, f, 5)
		var all sync.WaitGroup
		all.Go(func() { _ = f.Wait(ctx, 30*time.Second) })
		eventually(t, "it waits", func() bool {
			f.laps.mu.Lock()
			defer f.laps.mu.Unlock()
			return f.laps.sitters != nil && !slices.ContainsFunc(f.laps.sitters, (*sitter).rested)
		})
		all.Go(func() {
			for i := range jobs {
				rdb.LPush(ctx, "queue:a", fmt.Sprint(i))
			}
		})
		if _, err := f.Close(ctx); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if n, in := rdb.LLen(ctx, "queue:a").Val(), lap(t, rdb, "a"); n != jobs || len(in) > 0 {
			t.Fatalf("round %d: %d of %d jobs in the queue, in the lap %q", round, n, jobs, in)
		}
		rdb.Del(ctx, "queue:a")
	}
}

// A lap of the wrong type costs the share, not the queue.
func TestLapOfTheWrongType(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	f := sharing(t, rdb, 1, "a")
	rdb.Set(ctx, keys.Lap("a"), "no list", 0)
	rdb.LPush(ctx, "queue:a", "0")
	if err := f.Wait(ctx, 10*time.Millisecond); err != nil {
		t.Errorf("wait: %v", err)
	}
	units := mustTake(t, f, 1)
	if len(units) != 1 {
		t.Errorf("took %v", units)
	}
	mustTake(t, f, 0, units...)
	rdb.Del(ctx, keys.Lap("a"))
}
