package fetch

import (
	"context"
	"encoding/json"
	"errors"
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

// A rescuer dies at each of its commands, before Redis has carried it out or
// after it: the next one finishes, no job is in two places, and each recovery
// is counted once, also for those that go elsewhere.
func TestRescuerDiesWhileItCounts(t *testing.T) {
	rdb, _ := redistest.New(t)
	judge := func(o Orphan) Fate {
		switch string(o.Unit.Payload) {
		case "a1":
			return Fate{Suspect: true}
		case "a2":
			return Fate{To: ToDead, Score: 1, Payload: []byte("a2 dead")}
		}
		return Fate{}
	}
	const jobs = 6
	for _, applied := range []bool{false, true} {
		for commands := 0; ; commands++ {
			if err := rdb.FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			die(t, rdb, "h:2:bb", jobs, "a")
			broken := redis.NewClient(rdb.Options())
			broken.AddHook(&death{left: commands, applied: applied})
			r := judging(t, rdb, judge)
			dying, err := NewRescuer(RescuerConfig{Redis: broken, Logger: zerolog.Nop(), Judge: judgeFunc(judge), Identity: "h:3:cc", Window: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			_, died := dying.Rescue(t.Context())
			_ = broken.Close()
			rdb.Del(t.Context(), keys.Rescue) // it ends by itself
			mustRescue(t, r.Rescue)

			where := fmt.Sprintf("died at command %d, carried out: %v", commands, applied)
			if got := list(t, rdb, "a"); !slices.Equal(got, []string{"a0", "a3", "a4", "a5"}) {
				t.Errorf("%s: queue %q", where, got)
			}
			if got := list(t, rdb, "a.suspects"); !slices.Equal(got, []string{"a1"}) {
				t.Errorf("%s: suspects %q", where, got)
			}
			if got := rdb.ZRange(t.Context(), keys.Dead, 0, -1).Val(); !slices.Equal(got, []string{"a2 dead"}) {
				t.Errorf("%s: dead %q", where, got)
			}
			counts := rdb.HGetAll(t.Context(), keys.RecoveredLog).Val()
			for job, text := range counts {
				var times []json.RawMessage
				if err := json.Unmarshal([]byte(text), &times); err != nil || len(times) != 1 {
					t.Errorf("%s: %s is counted as %s", where, job, text)
				}
			}
			if len(counts) != jobs {
				t.Errorf("%s: %d jobs are counted, want %d", where, len(counts), jobs)
			}
			if !errors.Is(died, errBroken) {
				if commands < 5 {
					t.Errorf("a rescue is %d commands?", commands)
				}
				break
			}
		}
	}
}

// death ends a client at a command: from there on nothing passes. applied: the
// command itself is still carried out, and its reply never read.
type death struct {
	left    int
	applied bool
	dead    bool
}

func (d *death) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *death) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return d.meet(func() error { return next(ctx, cmds) })
	}
}

func (d *death) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := d.meet(func() error { return next(ctx, cmd) })
		if errors.Is(err, errBroken) {
			cmd.SetErr(err)
		}
		return err
	}
}

func (d *death) meet(call func() error) error {
	if d.dead {
		return errBroken
	}
	if d.left > 0 {
		d.left--
		return call()
	}
	d.dead = true
	if d.applied {
		_ = call()
	}
	return errBroken
}

// Two takes and a settlement are on their way at once, and all three replies are
// lost: one resume asks for all that they took, and nothing is done twice. (The
// daemon has one take on its way at a time, and settlements beside it.)
func TestResumeWithSeveralCallsInFlight(t *testing.T) {
	rdb, _ := redistest.New(t)
	for _, applied := range []bool{true, false} {
		if err := rdb.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		const calls = 3
		m := &meeting{applied: applied}
		m.all.Add(calls)
		wire := redis.NewClient(rdb.Options())
		wire.AddHook(m)
		f := mustOpen(t, testEnv(wire, Strict{"a"}))
		rdb.LPush(t.Context(), "queue:a", "first")
		for i := range 12 {
			rdb.LPush(t.Context(), "queue:a", fmt.Sprint(i))
		}
		held := mustTake(t, f, 3)
		if _, err := f.Settle(t.Context(), []Move{{Unit: held[0], To: ToSchedule}}); err != nil { // so that Redis knows the script
			t.Fatal(err)
		}
		held = held[1:]

		f.bell.turn <- struct{}{} // so that no take goes by the bell's own connection
		m.left.Store(calls)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				if units, err := f.Take(t.Context(), 4, nil); err == nil {
					t.Errorf("a take whose reply was lost: %v", units)
				}
			})
		}
		moves := []Move{{Unit: held[0], To: ToRetry, Score: 1}, {Unit: held[1], To: ToDead, Score: 1}}
		group.Go(func() {
			if _, err := f.Settle(t.Context(), moves); err == nil {
				t.Error("a settlement whose reply was lost: no error")
			}
		})
		group.Wait()
		<-f.bell.turn

		generation := f.generation
		var units []Unit
		for range 10 {
			units = append(units, mustTake(t, f, 10-len(units))...)
		}
		if _, err := f.Settle(t.Context(), moves); err != nil {
			t.Fatal(err)
		}
		if f.generation != generation+1 {
			t.Errorf("applied %v: generation %d after %d: one resume was to do", applied, f.generation, generation)
		}
		var got []string
		for _, u := range units {
			got = append(got, string(u.Payload))
		}
		slices.Sort(got)
		if want := []string{"10", "11", "2", "3", "4", "5", "6", "7", "8", "9"}; !slices.Equal(got, want) {
			t.Errorf("applied %v: took %q", applied, got)
		}
		for set, want := range map[string]string{keys.Retry: "0", keys.Dead: "1"} {
			if got := rdb.ZRange(t.Context(), set, 0, -1).Val(); !slices.Equal(got, []string{want}) {
				t.Errorf("applied %v: %s has %q, want %s once", applied, set, got, want)
			}
		}
		mustTake(t, f, 0, units...)
		if left, err := f.Close(t.Context()); left != 0 || err != nil {
			t.Errorf("applied %v: close: %d left, %v", applied, left, err)
		}
		_ = wire.Close()
	}
}

// meeting fails the next so many takes and settlements, all of them only when
// all are there.
type meeting struct {
	left    atomic.Int32
	all     sync.WaitGroup
	applied bool
}

func (m *meeting) DialHook(next redis.DialHook) redis.DialHook { return next }
func (m *meeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return m.meet(cmds[0], func() error { return next(ctx, cmds) })
	}
}
func (m *meeting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return m.meet(cmd, func() error { return next(ctx, cmd) })
	}
}

func (m *meeting) meet(cmd redis.Cmder, call func() error) error {
	script := len(cmd.Args()) > 1 && (cmd.Args()[1] == takeScript.hash || cmd.Args()[1] == settleScript.hash)
	if !script || m.left.Add(-1) < 0 { // the bell has commands of its own
		return call()
	}
	if m.applied {
		_ = call()
	}
	m.all.Done()
	m.all.Wait()
	cmd.SetErr(io.EOF)
	return io.EOF
}
