package client_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// rig is a client with a faulty way to a Redis in memory, in virtual time.
type rig struct {
	t      *testing.T
	mem    *testkit.Server
	faults *chaos.Proxy
	c      *client.Client
}

func inBubble(t *testing.T, f func(*rig), opts ...client.ClientOption) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		r := &rig{t: t, mem: mem, faults: chaos.NewProxy(t, mem.Options())}
		rdb := r.faults.Client()
		r.c = client.New(rdb, opts...)
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = r.c.Close(ctx)
		}()
		f(r)
	})
}

func (r *rig) push(opts ...client.Option) string {
	r.t.Helper()
	jid := harness.Must(r.c.PushClass(r.t.Context(), "Work", nil, opts...))(r.t)
	return jid
}

// queue is the jids of a queue, the first to be popped in front.
func (r *rig) queue(name string) (jids []string) {
	r.t.Helper()
	jobs := harness.Must(r.mem.Client.LRange(r.t.Context(), "queue:"+name, 0, -1).Result())(r.t)
	for _, job := range slices.Backward(jobs) {
		p := harness.Must(troupe.ParsePayload([]byte(job)))(r.t)
		jids = append(jids, p.JID())
	}
	return jids
}

func (r *rig) flush() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	harness.OK(r.t, r.c.Flush(ctx))
}

func TestAPushFailsFastAndSaysWhetherItMayHaveArrived(t *testing.T) {
	for _, tc := range []struct {
		name    string
		begin   func(*chaos.Proxy)
		away    bool
		maybe   bool
		arrived int64
	}{
		{"nobody listens", func(f *chaos.Proxy) { f.Kill() }, true, false, 0},
		{"loading", refusing("LOADING Redis is loading the dataset in memory"), true, false, 0},
		{"no memory", refusing("OOM command not allowed when used memory > 'maxmemory'."), true, false, 0},
		{"the password has changed", refusing("NOAUTH Authentication required."), true, false, 0},
		{"cut before", doing(chaos.Effect{Cut: true}, "lpush"), true, true, 0},
		{"cut after", doing(chaos.Effect{Cut: true, Applied: true}, "lpush"), true, true, 1},
		{"half-open", doing(chaos.Effect{Mute: true}, ""), true, true, 0},
		{"only the set of queues is refused", func(f *chaos.Proxy) {
			f.Add(chaos.Fault{Command: "sadd", Do: chaos.Effect{Refuse: "BUSY Redis is busy running a script."}})
		}, true, true, 1},
		{"a key of the wrong type", refusing("WRONGTYPE Operation against a key holding the wrong kind of value"), false, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem := testkit.NewMemory(t)
				faults := chaos.NewProxy(t, mem.Options())
				opts := faults.Options()
				opts.ReadTimeout = 3 * time.Second // go-redis' default
				rdb := newClient(t, opts)
				c := client.New(rdb)
				tc.begin(faults) // of a pooled connection that has ended go-redis finds out by itself
				began := time.Now()
				_, err := c.PushClass(t.Context(), "Work", nil)
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("it took %s", took)
				}
				u, away := errors.AsType[*client.UnavailableError](err)
				if err == nil || away != tc.away || away && u.Maybe != tc.maybe {
					t.Errorf("error %#v (%v), want away %v, maybe %v", u, err, tc.away, tc.maybe)
				}
				harness.Equal(t, "jobs in the queue", mem.Client.LLen(t.Context(), "queue:default").Val(), tc.arrived)
			})
		})
	}
}

func refusing(text string) func(*chaos.Proxy) {
	return func(f *chaos.Proxy) { f.Add(chaos.Fault{Do: chaos.Effect{Refuse: text}}) }
}

func doing(do chaos.Effect, command string) func(*chaos.Proxy) {
	return func(f *chaos.Proxy) { f.Add(chaos.Fault{Command: command, Do: do}) }
}

func TestTheBufferIsSentInOrderWhenRedisIsBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		var want []string
		r.faults.Kill()
		for range 20 {
			want = append(want, r.push())
		}
		later := r.push(client.In(time.Hour))
		bulk := harness.Must(r.c.PushBulkClass(r.t.Context(), "Work", slices.Values([][]any{{1}, {2}, {3}})))(r.t)
		want = append(want, bulk...)
		over, cancel := context.WithCancel(r.t.Context())
		cancel()
		if left, ok := errors.AsType[*client.UnavailableError](r.c.Flush(over)); !ok || left.Buffered != 24 {
			r.t.Errorf("%v, want 24 buffered", left)
		}
		time.Sleep(time.Minute)
		r.faults.Restart()
		want = append(want, r.push()) // behind them
		r.flush()
		want = append(want, r.push()) // no longer buffered
		harness.EqualList(r.t, "in the queue", r.queue("default"), want)
		harness.EqualList(r.t, "the scheduled job is in", chaos.TakeInventory(r.t, r.mem.Client)[later], []string{"schedule"})
	}, client.WithBuffer(100))
}

func TestTheBufferTriesAgainSeldom(t *testing.T) {
	inBubble(t, func(r *rig) {
		tries := r.faults.Add(chaos.Fault{Do: chaos.Effect{Cut: true}})
		r.faults.Kill()
		r.push()
		r.faults.Restart() // each connection now breaks at its first command
		time.Sleep(time.Minute)
		if n := tries.Hits(); n < 20 || n > 90 {
			r.t.Errorf("%d commands in a minute", n)
		}
		tries.Remove()
		r.flush()
	}, client.WithBuffer(100))
}

func TestAFullBufferIsAnErrorAndTakesNothing(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.faults.Kill()
		want := []string{r.push(), r.push(), r.push()}
		_, err := r.c.PushClass(r.t.Context(), "Work", nil)
		full, ok := errors.AsType[*client.UnavailableError](err)
		if !ok || full.Buffered != 3 || full.Err == nil {
			r.t.Errorf("error %v", err)
		}
		r.faults.Restart()
		r.flush()
		harness.EqualList(r.t, "in the queue", r.queue("default"), want)
	}, client.WithBuffer(3))
}

// Whatever becomes of the replies to what the buffer sends: each job is there once.
func TestALostReplyToTheBufferDoublesNothing(t *testing.T) {
	for name, do := range map[string]chaos.Effect{
		"cut": {Cut: true, Applied: true}, "mute": {Mute: true, Applied: true}, "twice": {Twice: true}, "slow": {Delay: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *rig) {
				r.mem.Client.Set(r.t.Context(), "queue:wrong", "x", 0) // one answer that has to be remembered
				r.faults.Kill()
				var want []string
				for range 2500 {
					want = append(want, r.push())
				}
				r.push(client.Queue("wrong"))
				lost := []*chaos.Fault{
					r.faults.Add(chaos.Fault{Command: "evalsha", Times: 4, Do: do}),
					r.faults.Add(chaos.Fault{Command: "eval", Times: 2, Do: do}),
				}
				r.faults.Restart()
				ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
				defer cancel()
				unsent, ok := errors.AsType[*client.UnavailableError](r.c.Flush(ctx))
				if !ok || unsent.Buffered != 1 {
					r.t.Errorf("%v, want the one job of the wrong queue", unsent)
				}
				if got := r.queue("default"); !slices.Equal(got, want) {
					r.t.Errorf("%d jobs in the queue, want %d in their order", len(got), len(want))
				}
				if lost[0].Hits()+lost[1].Hits() == 0 {
					r.t.Error("no reply was lost")
				}
				r.mem.Client.Del(r.t.Context(), "queue:wrong")
				r.flush()
				if got := r.queue("wrong"); len(got) != 1 {
					r.t.Errorf("%v in the queue that was of the wrong type", got)
				}
			}, client.WithBuffer(3000))
		})
	}
}

// A connection that hangs costs one push its time; the others do not wait for it.
func TestOnlyTheFirstPushWaitsForAHalfOpenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testkit.NewMemory(t)
		faults := chaos.NewProxy(t, mem.Options())
		opts := faults.Options()
		opts.ReadTimeout = 3 * time.Second
		c := client.New(newClient(t, opts), client.WithBuffer(10))
		faults.Pause()
		_, err := c.PushClass(t.Context(), "Work", nil)
		if u, ok := errors.AsType[*client.UnavailableError](err); !ok || !u.Maybe {
			t.Errorf("error %v, want one that says that it may have arrived", err)
		}
		began := time.Now()
		if _, err := c.PushClass(t.Context(), "Work", nil); err != nil || time.Since(began) > 0 {
			t.Errorf("the second push: %v after %s", err, time.Since(began))
		}
		faults.Resume()
		harness.Check(t, c.Close(t.Context()))
		if n := mem.Client.LLen(t.Context(), "queue:default").Val(); n < 1 || n > 2 {
			t.Errorf("%d jobs in the queue, want the second, and perhaps the first", n)
		}
	})
}

func TestCloseReportsWhatIsLost(t *testing.T) {
	inBubble(t, func(r *rig) {
		r.faults.Kill()
		for range 7 {
			r.push()
		}
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		for _, end := range []func(context.Context) error{r.c.Flush, r.c.Close} {
			unsent, ok := errors.AsType[*client.UnavailableError](end(ctx))
			if !ok || unsent.Buffered != 7 || unsent.Err == nil {
				r.t.Errorf("got %v, want 7 jobs", unsent)
			}
		}
		harness.Equal(r.t, "it took of 5s", time.Since(began), 5*time.Second)
		r.faults.Restart()
		if _, err := r.c.PushClass(r.t.Context(), "Work", nil); !errors.Is(err, client.ErrClosed) {
			r.t.Errorf("a push after Close: %v", err)
		}
		time.Sleep(time.Minute)
		if got := r.queue("default"); len(got) != 0 {
			r.t.Errorf("%v in the queue after Close", got)
		}
	}, client.WithBuffer(10))
}

// Many goroutines push while Redis comes and goes: a push without an error is
// there once, one with an error at most once.
func TestPushesOfManyWhileRedisComesAndGoes(t *testing.T) {
	inBubble(t, func(r *rig) {
		var mu sync.Mutex
		var accepted, doubted []string
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for range 100 {
					jid := job.NewID()
					_, err := r.c.PushClass(r.t.Context(), "Work", nil, client.JID(jid))
					mu.Lock()
					if err == nil {
						accepted = append(accepted, jid)
					} else {
						doubted = append(doubted, jid)
					}
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		r.faults.AtRandom(1, 0.05, chaos.Effect{Cut: true}, chaos.Effect{Cut: true, Applied: true})
		for range 5 {
			time.Sleep(100 * time.Millisecond)
			r.faults.Kill()
			time.Sleep(100 * time.Millisecond)
			r.faults.Restart()
		}
		r.faults.AtRandom(0, 0)
		all.Wait()
		r.flush()
		times := map[string]int{}
		for _, jid := range r.queue("default") {
			times[jid]++
		}
		for _, jid := range accepted {
			harness.Equal(r.t, "an accepted job is there times", times[jid], 1)
		}
		for _, jid := range doubted {
			if times[jid] > 1 {
				r.t.Errorf("a job with an error is there %d times", times[jid])
			}
		}
		r.t.Logf("%d accepted, %d errors", len(accepted), len(doubted))
	}, client.WithBuffer(5000))
}

func TestABufferOfNothingIsAnError(t *testing.T) {
	c := client.New(testkit.Redis(t), client.WithBuffer(0))
	if _, err := c.PushClass(t.Context(), "Work", nil); err == nil {
		t.Error("no error")
	}
}

func newClient(t *testing.T, opts *redis.Options) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(opts)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
