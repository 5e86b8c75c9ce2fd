package fetch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// recorder keeps the last call of each script, to be sent again.
type recorder struct {
	mu    sync.Mutex
	calls map[string][]any // by hash
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			r.mu.Lock()
			if r.calls == nil {
				r.calls = make(map[string][]any)
			}
			r.calls[cmd.Args()[1].(string)] = slices.Clone(cmd.Args())
			r.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// again sends what was recorded once more.
func (r *recorder) again(t *testing.T, rdb redis.UniversalClient, name string) error {
	t.Helper()
	r.mu.Lock()
	args := r.calls[hashOf(name)]
	r.mu.Unlock()
	if args == nil {
		t.Fatalf("%s was never called", name)
	}
	cmd := redis.NewCmd(t.Context(), args...)
	cmd.SetFirstKeyPos(3)
	return rdb.Process(t.Context(), cmd)
}

// Whatever of an earlier call, generation or incarnation still arrives is refused and
// changes nothing, on one server and on a cluster.
func TestLateDuplicatesAreRefused(t *testing.T) {
	for _, cluster := range []bool{false, true} {
		t.Run(map[bool]string{false: "one server", true: "a cluster"}[cluster], func(t *testing.T) {
			r := &recorder{}
			var rdb, plain redis.UniversalClient
			if cluster {
				c, nodes := redistest.NewCluster(t)
				own := nodes.Client()
				defer func() { _ = own.Close() }()
				own.AddHook(r)
				rdb, plain = own, c
			} else {
				c, _ := redistest.New(t)
				rdb, plain = hooked(t, c, r), c
			}
			ctx := t.Context()
			for _, identity := range []string{"h:2:bb", "h:3:cc"} { // the second time Redis knows every script
				env := testEnv(rdb, Strict{"a"})
				env.Identity = identity
				f := mustOpen(t, env)
				plain.LPush(ctx, "queue:a", anys(upTo(4))...)
				units := mustTake(t, f, 2)
				p := f.cur.indexes[0]
				refused := func(when string, scripts ...string) {
					t.Helper()
					before := inProgress(t, plain, p)
					for _, name := range scripts {
						err := r.again(t, plain, name)
						if !redisconn.HasPrefix(err, "STALE", "FENCED", "FOREIGN", "MISSING") {
							t.Errorf("%s: a late %s: %v, expected a refusal", when, name, err)
						}
					}
					if got := inProgress(t, plain, p); !slices.Equal(got, before) {
						t.Errorf("%s: in progress %q, before %q", when, got, before)
					}
				}
				refused("after the call", "take", "begin")
				settleAll(t, f, Move{Unit: units[0], To: ToQueue})
				refused("after the next call", "take", "settle", "begin")
				p.doubt = true
				harness.OK(t, f.Renew(ctx))
				refused("after a resync", "take", "settle", "begin")
				plain.Del(ctx, p.key)
				plain.Del(ctx, p.slot.List(p.in.id, "1.1"))
				refused("forgotten", "take", "settle")
				if err := f.Renew(ctx); err != nil { // writes back
					t.Fatal(err)
				}
				refused("after a restore", "take", "settle", "restore", "begin")
				plain.Del(ctx, p.in.common.Lease)
				plain.ZAdd(ctx, p.in.common.Expiries, redis.Z{Score: 1, Member: p.in.id})
				mustRescue(t, testRescuer(t, plain).Rescue)
				refused("after a rescue", "take", "settle", "restore", "begin")
				if got := popped(t, plain, "queue:a"); !slices.Equal(got, upTo(4)) && !slices.Equal(got, []string{"1", "0", "2", "3"}) {
					t.Errorf("queue: %q", got)
				}
				if err := f.Renew(ctx); !errors.As(err, new(*FencedError)) {
					t.Errorf("renew: %v, expected a fence", err)
				}
				mustTake(t, f, 0, mustTake(t, f, 4)...)
				if left, err := f.Close(ctx); left != 0 || err != nil {
					t.Errorf("close: %d, %v", left, err)
				}
				refused("after its end", "take", "leave")
				if n := plain.Exists(ctx, p.slot.Index(f.cur.id)).Val(); n != 0 {
					t.Error("a late duplicate has made the index again")
				}
				plain.Del(ctx, p.key)
			}
		})
	}
}

// A take that a client sends twice takes once; what it took is handed out, once.
func TestTakeSentTwice(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	f := mustOpen(t, testEnv(hooked(t, rdb, &twice{hash: hashOf("take")}), Strict{"a", "b"}))
	known(t, rdb)
	rdb.LPush(ctx, "queue:a", "a0", "a1", "a2")
	rdb.LPush(ctx, "queue:b", "b0", "b1")
	units := mustTake(t, f, 4)
	harness.EqualList(t, "took", payloads(units), []string{"a0", "a1", "a2", "b0"})
	harness.Equal(t, "jobs are left in the queue", rdb.LLen(ctx, "queue:b").Val(), 1)
	mustTake(t, f, 0, units...)
	noClaims(t, rdb)
}

// twice sends the first call of a script twice, as a client that repeats silently.
type twice struct{ hash string }

func (w *twice) DialHook(next redis.DialHook) redis.DialHook { return next }
func (w *twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if len(cmd.Args()) > 1 && cmd.Args()[1] == w.hash {
			w.hash = ""
			_ = next(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}

// A unit that is listed twice is moved once.
func TestMoveListedTwice(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	rdb.LPush(t.Context(), "queue:a", "0")
	u := mustTake(t, f, 1)[0]
	harness.Must(f.Settle(t.Context(), []Move{{Unit: u, To: ToQueue}, {Unit: u, To: ToDead, Score: 1}, {Unit: u, To: ToQueue}}))(t)
	harness.Equal(t, "the job is in places", rdb.LLen(t.Context(), "queue:a").Val()+rdb.ZCard(t.Context(), "dead").Val(), 1)
}

// A process that was paused beyond its lease starts none of what it has in hand or took
// before the pause: it learns first whether it was fenced.
func TestNoJobStartsOnALeaseThatIsOver(t *testing.T) {
	pause := func(f *fetcher, by string) { // as if time had passed
		f.mu.Lock()
		defer f.mu.Unlock()
		switch by {
		case "SIGSTOP":
			f.renewed.mono = f.renewed.mono.Add(-2 * f.env.Lease)
		case "a machine that is suspended":
			f.renewed.wall = f.renewed.wall.Add(-2 * f.env.Lease)
		}
	}
	for _, by := range []string{"SIGSTOP", "a machine that is suspended"} {
		for _, where := range []string{"in hand", "in the reply", "in a later reply", "in the reply of a wait"} {
			for _, rescued := range []bool{true, false} {
				t.Run(by+", "+where+map[bool]string{true: ", rescued", false: ""}[rescued], func(t *testing.T) {
					rdb, _ := redistest.New(t)
					ctx := t.Context()
					names := []string{"a"}
					for i := range queuesCall + 1 {
						names = append(names, "empty"+upTo(queuesCall + 1)[i])
					}
					if where != "in a later reply" {
						names = names[:1]
					}
					m := &afterwards{}
					env := testEnv(hooked(t, rdb, m), Strict(names))
					env.Waiters = 1
					f := mustOpen(t, env)
					known(t, rdb)
					inHand := 2
					asleep := func() {
						pause(f, by)
						if rescued {
							expire(t, rdb, f.cur.id)
							if done := mustRescue(t, testRescuer(t, rdb).Rescue); done.Units != inHand {
								t.Errorf("rescued %+v", done)
							}
						}
					}
					switch where {
					case "in hand":
						rdb.LPush(ctx, "queue:a", "0", "1")
						f.stash = mustTake(t, f, 2)
						asleep()
					case "in the reply", "in a later reply":
						rdb.LPush(ctx, "queue:a", "0", "1")
						m.arm(hashOf("take"), map[string]int{"in the reply": 0, "in a later reply": 1}[where], asleep)
					case "in the reply of a wait":
						time.AfterFunc(50*time.Millisecond, func() { rdb.LPush(context.Background(), "queue:a", "0", "1") })
						inHand = 1 // no wait begins while it is: the other one is taken
						harness.Await(t, "one is in hand", func() bool {
							_ = f.Wait(ctx, time.Second)
							f.mu.Lock()
							defer f.mu.Unlock()
							return len(f.stash) == inHand
						})
						f.mu.Lock()
						f.waits++ // else what is in hand goes back on a machine that is slow
						f.mu.Unlock()
						asleep()
					}
					units, err := f.Take(ctx, 5, nil)
					if rescued && !errors.As(err, new(*FencedError)) || rescued && len(units) > 0 {
						t.Fatalf("took %q: %v, expected a fence", payloads(units), err)
					}
					if rescued {
						units = mustTake(t, f, 5)
					}
					got := payloads(units)
					if slices.Sort(got); err != nil && !rescued || !slices.Equal(got, []string{"0", "1"}) {
						t.Errorf("took %q: %v", got, err)
					}
					for _, u := range units {
						if u.Incarnation != f.cur.n {
							t.Errorf("unit %s is of incarnation %d", u.Receipt, u.Incarnation)
						}
					}
					f.mu.Lock()
					if !f.freshLocked(0) {
						t.Error("they were handed out on a lease that is over")
					}
					f.mu.Unlock()
					mustTake(t, f, 0, units...)
					if left, err := f.Close(ctx); left != 0 || err != nil {
						t.Errorf("close: %d, %v", left, err)
					}
				})
			}
		}
	}
}

// afterwards does something once a call of a script has been carried out, before its
// reply is read.
type afterwards struct {
	mu   sync.Mutex
	hash string
	skip int
	do   func()
}

func (a *afterwards) arm(hash string, skip int, do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hash, a.skip, a.do = hash, skip, do
}

func (a *afterwards) DialHook(next redis.DialHook) redis.DialHook { return next }
func (a *afterwards) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *afterwards) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.hash != "" && len(cmd.Args()) > 1 && cmd.Args()[1] == a.hash {
			if a.skip--; a.skip < 0 {
				a.hash = ""
				a.do()
			}
		}
		return err
	}
}
