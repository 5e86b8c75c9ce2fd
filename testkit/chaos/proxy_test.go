package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// onBoth runs f on a real Redis, and in memory in virtual time.
func onBoth(t *testing.T, f func(t *testing.T, to *redis.Options, direct *redis.Client)) {
	t.Run("real", func(t *testing.T) {
		rdb := testkit.Redis(t)
		f(t, rdb.Options(), rdb)
	})
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := testkit.NewMemory(t)
			f(t, mem.Options(), mem.Client)
		})
	})
}

func TestFaultsHappenToTheCommandsTheyName(t *testing.T) {
	onBoth(t, func(t *testing.T, to *redis.Options, direct *redis.Client) {
		ctx := t.Context()
		faults := chaos.NewProxy(t, to)
		rdb := faults.Client()
		for _, tc := range []struct {
			name string
			do   chaos.Effect
			err  func(error) bool
			n    string // what the key holds afterwards
		}{
			{"cut before", chaos.Effect{Cut: true}, isCut, "0"},
			{"cut after", chaos.Effect{Cut: true, Applied: true}, isCut, "1"},
			{"twice", chaos.Effect{Twice: true}, nil, "2"},
			{"refuse", chaos.Effect{Refuse: "OOM command not allowed"}, func(err error) bool { return err != nil && err.Error() == "OOM command not allowed" }, "0"},
			{"delay", chaos.Effect{Delay: 20 * time.Millisecond}, nil, "1"},
		} {
			harness.OK(t, direct.Set(ctx, "n", 0, 0).Err())
			rule := faults.Add(chaos.Fault{Command: "incr", Skip: 1, Times: 1, Do: tc.do})
			if err := rdb.Incr(ctx, "other").Err(); err != nil {
				t.Fatalf("%s, the one that is skipped: %v", tc.name, err)
			}
			began := time.Now()
			v, err := rdb.Incr(ctx, "n").Result()
			if tc.err == nil && (err != nil || fmt.Sprint(v) != tc.n) || tc.err != nil && !tc.err(err) {
				t.Errorf("%s: %d, %v", tc.name, v, err)
			}
			if took := time.Since(began); tc.name == "delay" && took < 20*time.Millisecond {
				t.Errorf("a delay of %s", took)
			}
			if got := direct.Get(ctx, "n").Val(); got != tc.n {
				t.Errorf("%s: applied %s times, want %s", tc.name, got, tc.n)
			}
			if err := rdb.Incr(ctx, "n").Err(); err != nil || rule.Hits() != 1 {
				t.Errorf("%s, afterwards: %v, %d hits", tc.name, err, rule.Hits())
			}
			rule.Remove()
		}
	})
}

func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}

func TestAHalfOpenConnectionAnswersNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, to *redis.Options, direct *redis.Client) {
		faults := chaos.NewProxy(t, to)
		for name, tc := range map[string]struct {
			do      chaos.Effect
			applied int64
		}{"swallow": {chaos.Effect{Mute: true}, 0}, "mute": {chaos.Effect{Mute: true, Applied: true}, 1}} {
			opts := faults.Options()
			opts.ReadTimeout = time.Minute // of what is to be answered
			rdb := redis.NewClient(opts)
			harness.OK(t, rdb.Ping(t.Context()).Err())
			rule := faults.Add(chaos.Fault{Command: "sadd", Mentions: name, Times: 1, Do: tc.do})
			if err := rdb.WithTimeout(100*time.Millisecond).SAdd(t.Context(), name, 1).Err(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v, want a timeout", name, err)
			}
			testkit.Await(t, name+": applied as often as it should be", func() bool {
				return rule.Hits() == 1 && direct.SCard(t.Context(), name).Val() == tc.applied
			})
			if err := rdb.SAdd(t.Context(), name, 2).Err(); err != nil { // on a new connection
				t.Errorf("%s, afterwards: %v", name, err)
			}
			_ = rdb.Close()
		}
	})
}

// Replies keep their places beside a forged one, and messages of a subscription pass.
func TestPipelinesAndSubscriptionsKeepTheirOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, to *redis.Options, direct *redis.Client) {
		ctx := t.Context()
		faults := chaos.NewProxy(t, to)
		rdb := faults.Client()
		faults.Add(chaos.Fault{Command: "get", Where: func(c []string) bool { return c[1] == "k7" }, Do: chaos.Effect{Refuse: "ERR seven"}})
		faults.Add(chaos.Fault{Command: "get", Where: func(c []string) bool { return c[1] == "k9" }, Do: chaos.Effect{Twice: true}})
		pipe := rdb.Pipeline()
		var gets []*redis.StringCmd
		for i := range 200 {
			pipe.Set(ctx, fmt.Sprint("k", i), i, 0)
			gets = append(gets, pipe.Get(ctx, fmt.Sprint("k", i)))
		}
		_, _ = pipe.Exec(ctx) // tells of the seventh
		for i, get := range gets {
			v, err := get.Result()
			if i == 7 && (err == nil || err.Error() != "ERR seven") || i != 7 && (err != nil || v != fmt.Sprint(i)) {
				t.Errorf("get %d: %q, %v", i, v, err)
			}
		}
		sub := rdb.Subscribe(ctx, "c")
		defer func() { _ = sub.Close() }()
		harness.Must(sub.Receive(ctx))(t)
		for i := range 3 {
			direct.Publish(ctx, "c", i)
		}
		for i := range 3 {
			if m, err := sub.ReceiveMessage(ctx); err != nil || m.Payload != fmt.Sprint(i) {
				t.Errorf("message %d: %v, %v", i, m, err)
			}
		}
	})
}

// A MULTI with a command that is refused applies nothing, and its connection stays in use.
func TestAMultiWithACommandThatIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, to *redis.Options, direct *redis.Client) {
		ctx := t.Context()
		faults := chaos.NewProxy(t, to)
		rdb := faults.Client()
		once := rdb.Conn()
		defer func() { _ = once.Close() }()
		do := func() error {
			_, err := once.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.Incr(ctx, "before")
				p.Set(ctx, "refused", 1, 0)
				p.Incr(ctx, "after")
				return nil
			})
			return err
		}
		for _, command := range []string{"multi", "set", "exec", ""} {
			fault := faults.Add(chaos.Fault{Command: command, Do: chaos.Effect{Refuse: "OOM command not allowed"}})
			if err := do(); err == nil || !strings.HasPrefix(err.Error(), "EXECABORT") || direct.Exists(ctx, "before", "after").Val() != 0 {
				t.Errorf("%q: %v, before %q, after %q", command, err, direct.Get(ctx, "before").Val(), direct.Get(ctx, "after").Val())
			}
			fault.Remove()
		}
		faults.Add(chaos.Fault{Command: "incr", Do: chaos.Effect{Twice: true}})
		if err := do(); err != nil || direct.Get(ctx, "before").Val() != "1" || direct.Get(ctx, "after").Val() != "1" {
			t.Errorf("afterwards: %v, before %q, after %q", err, direct.Get(ctx, "before").Val(), direct.Get(ctx, "after").Val())
		}
		if err := once.Ping(ctx).Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestAKilledProxyRefusesAndAPausedOneKeepsSilent(t *testing.T) {
	onBoth(t, func(t *testing.T, to *redis.Options, direct *redis.Client) {
		ctx := t.Context()
		faults := chaos.NewProxy(t, to)
		opts := faults.Options()
		opts.ReadTimeout = time.Minute
		rdb := redis.NewClient(opts)
		defer func() { _ = rdb.Close() }()
		harness.OK(t, rdb.Ping(ctx).Err())
		faults.Kill()
		if err := rdb.Ping(ctx).Err(); err == nil {
			t.Error("a ping has passed while down")
		}
		faults.Restart()
		if err := rdb.Ping(ctx).Err(); err != nil {
			t.Errorf("after Restart: %v", err)
		}
		faults.Pause()
		result := make(chan error, 1)
		go func() { result <- rdb.Set(ctx, "k", "v", 0).Err() }()
		time.Sleep(50 * time.Millisecond)
		select {
		case err := <-result:
			t.Fatalf("while frozen: %v", err)
		default:
		}
		if n := direct.Exists(ctx, "k").Val(); n != 0 {
			t.Error("passed while frozen")
		}
		faults.Resume()
		if err := <-result; err != nil || direct.Get(ctx, "k").Val() != "v" {
			t.Errorf("after Resume: %v", err)
		}
	})
}

// One client, one seed: the same commands are hit.
func TestFaultsBySeedRepeat(t *testing.T) {
	run := func(seed uint64) (passed []bool) {
		synctest.Test(t, func(t *testing.T) {
			faults := chaos.NewProxy(t, testkit.NewMemory(t).Options())
			rdb := faults.Client()
			faults.AtRandom(seed, 0.2, chaos.Effect{Refuse: "ERR a"}, chaos.Effect{Refuse: "ERR b"})
			for range 200 {
				passed = append(passed, rdb.Ping(context.Background()).Err() == nil)
			}
			faults.AtRandom(0, 0)
			if err := rdb.Ping(context.Background()).Err(); err != nil {
				t.Errorf("after the end: %v", err)
			}
		})
		return passed
	}
	first := run(1)
	if !slices.Equal(first, run(1)) || slices.Equal(first, run(2)) {
		t.Error("a seed does not repeat, or two are the same")
	}
	if n := len(slices.DeleteFunc(slices.Clone(first), func(ok bool) bool { return ok })); n < 20 || n > 60 {
		t.Errorf("%d faults of 200 at 0.2", n)
	}
}

func TestFaultsLeadOtherProcessesToo(t *testing.T) {
	direct := testkit.Redis(t)
	faults := chaos.NewProxy(t, direct.Options())
	rdb := redis.NewClient(&redis.Options{Addr: faults.Listen(), DB: direct.Options().DB, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	called := 0
	faults.Add(chaos.Fault{Command: "set", Times: 1, Do: chaos.Effect{Call: func() { called++ }}})
	if err := rdb.Set(t.Context(), "k", 1, 0).Err(); err != nil || called != 1 || direct.Get(t.Context(), "k").Val() != "1" {
		t.Errorf("%v, called %d times", err, called)
	}
	faults.Add(chaos.Fault{Do: chaos.Effect{Cut: true}})
	if err := rdb.Get(t.Context(), "k").Err(); err == nil {
		t.Error("every command is cut, and one was not")
	}
}
