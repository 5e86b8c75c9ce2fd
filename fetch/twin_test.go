package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/parcel"
	"github.com/troupehq/troupe/internal/redistest"
)

// A take that reaches Redis twice takes once, and both replies say the same:
// also when the first run emptied the queues.
func TestTakeSentTwice(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a", "b"}))
	for n := range 28 {
		jobs, parcels := n/4, n%4
		for i := range jobs {
			rdb.LPush(t.Context(), keys.Queue([]string{"a", "b"}[i%2]), fmt.Sprint(i))
		}
		f.calls++
		prefix := receiptPrefix(f.calls)
		take := func() []Unit {
			args, _ := f.takeArgs(f.cur, prefix, 4, parcels, parcel.Size, f.wants(4, f.rand), nil, nil)
			reply, lists, err := takeScript.runWith(t.Context(), rdb, args, parcelLists(f.cur, prefix, parcels))
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.units(f.cur, prefix, reply, lists, true)
			if err != nil {
				t.Fatal(err)
			}
			return got.units
		}
		units, again := take(), take()
		if texts(units) != texts(again) || len(units) != min(jobs, 4) {
			t.Errorf("%d jobs in up to %d parcels: %s, then %s", jobs, parcels, texts(units), texts(again))
		}
		mustTake(t, f, 0, append(units, mustTake(t, f, 9)...)...)
	}
	if left, err := f.Close(t.Context()); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
}

// texts tells receipts and bytes.
func texts(units []Unit) string {
	var out []string
	for _, u := range units {
		out = append(out, u.Receipt+"="+string(u.Payload))
	}
	return strings.Join(out, " ")
}

// Whatever of an old generation or incarnation still arrives is refused and
// changes nothing.
func TestLateTwinsAreRefused(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	rdb.LPush(t.Context(), "queue:a", "0", "1", "2", "3")
	units := mustTake(t, f, 2)
	old := f.cur
	late := func() {
		t.Helper()
		args, _ := f.takeArgs(old, "zz", 2, 0, parcel.Size, f.wants(2, f.rand), units, nil)
		_, err := takeScript.run(t.Context(), rdb, args)
		settle := f.settle(t.Context(), old, []Move{{Unit: units[0], To: ToRetry}}, []int{0}, new(error))
		renew := renewScript.Run(t.Context(), rdb, []string{keys.Procs, keys.Leases, old.lease}, old.id, old.generation, f.ttl).Err()
		restore := restoreScript.Run(t.Context(), rdb, []string{old.lease, old.wips[0]}, old.generation, f.ttl, "1000", "x").Err()
		register := registerScript.Run(t.Context(), rdb, []string{keys.Procs, keys.Leases, old.lease, old.fenced}, old.id, "[]", old.generation, f.ttl).Err()
		for call, err := range map[string]error{"take": err, "settle": settle, "renew": renew, "restore": restore, "register": register} {
			if !redis.HasErrorPrefix(err, "FENCED") && !redis.HasErrorPrefix(err, "LATE") {
				t.Errorf("late %s: %v, expected a refusal", call, err)
			}
		}
	}
	f.doubt = true
	if err := f.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	late()
	resume := resumeScript.Run(t.Context(), rdb, append([]string{keys.Procs, keys.Leases, old.lease, old.fenced}, old.wips...),
		old.id, old.generation, f.ttl, maxPage, "").Err()
	if !redis.HasErrorPrefix(resume, "FENCED") {
		t.Errorf("late resume: %v, expected FENCED", resume)
	}
	late()
	if got := len(inPlace(t, rdb, old.wips[0])); got != 2 {
		t.Errorf("%d in progress, expected 2", got)
	}
	expire(t, rdb, old.id)
	late()
	mustRescue(t, newRescuer(t, rdb).Rescue)
	late()
	if got := list(t, rdb, "a"); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("queue: %q", got)
	}
	if err := f.Renew(t.Context()); !errors.Is(err, ErrFenced) {
		t.Errorf("renew: %v, expected FencedError", err)
	}
	if left, err := f.Close(t.Context()); left != 0 || err != nil {
		t.Errorf("close: %d, %v", left, err)
	}
}

// So it is on a cluster, in each private place.
func TestLateTwinsAreRefusedOnACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	f := member(t, rdb, "h:2:bb", "a")
	rdb.LPush(ctx, keys.Queue("a"), "0", "1", "2", "3")
	units := mustTake(t, f, 2)
	old := f.cur
	place := old.places[0][1]
	late := func() {
		t.Helper()
		_, mark := f.mark(ctx, old, true)
		take := runAll(ctx, rdb, []*eval{newEval(clusterTake, old.places[0], old.generation, "zz", 2, DefaultBytes)})
		settle := f.settleMoves(ctx, old, []Move{{Unit: units[0], To: ToQueue}}, make([]Result, 1))
		restore := runAll(ctx, rdb, []*eval{newEval(clusterRestore, old.places[0][1:], old.generation, "1000", "x")})
		for call, err := range map[string]error{"mark": mark, "take": take, "settle": settle, "restore": restore} {
			if !redis.HasErrorPrefix(err, "FENCED") && !errors.Is(err, errShut) {
				t.Errorf("late %s: %v, expected FENCED", call, err)
			}
		}
	}
	f.doubt = true
	if err := f.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	late()
	if held := rdb.HGetAll(ctx, place).Val(); held["!"] != f.cur.generation || len(held) != 3 {
		t.Errorf("the private place: %q, expected 2 units and generation %s", held, f.cur.generation)
	}
	lapse(t, rdb, old.id)
	late()
	mustRescue(t, newRescuer(t, rdb).Rescue)
	late()
	if got := popped(t, rdb, keys.Queue("a")); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("queue: %q", got)
	}
}

// A node has forgotten a fetcher, which registers again: the client repeats that when
// the lease is over. Nobody has fenced it, so it keeps what it holds and writes it back.
func TestALateRegistrationTakesNothingAway(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	f := member(t, rdb, "h:2:bb", "a")
	rdb.LPush(ctx, keys.Queue("a"), "0", "1")
	units := mustTake(t, f, 2)
	f.env.Held = func() []Unit { return units }
	in := f.cur
	rdb.Del(ctx, in.places[0][1])
	rdb.Del(ctx, f.reg.procs, f.reg.leases, in.lease)
	rdb.AddHook(&repeater{script: redis.NewScript(source("register")).Hash(), meanwhile: func() { rdb.Del(ctx, in.lease) }})
	f.doubt = true
	if err := f.Renew(ctx); !redis.HasErrorPrefix(err, "LATE") {
		t.Errorf("renew: %v, expected LATE", err)
	}
	if err := f.Renew(ctx); err != nil || f.cur.n != in.n {
		t.Errorf("renew: %v, incarnation %d, expected still %d", err, f.cur.n, in.n)
	}
	if held := rdb.HGetAll(ctx, in.places[0][1]).Val(); len(held) != 3 {
		t.Errorf("the private place: %q, expected 2 units", held)
	}
	mustTake(t, f, 0, units...)
}

// repeater sends the first call of a script twice.
type repeater struct {
	script    string
	meanwhile func()
	done      bool
}

func (r *repeater) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r *repeater) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (r *repeater) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := next(ctx, cmd); err != nil || r.done || len(cmd.Args()) < 2 || cmd.Args()[1] != r.script {
			return err
		}
		r.done = true
		r.meanwhile()
		return next(ctx, cmd)
	}
}

// A unit that is listed twice is moved once.
func TestMoveListedTwice(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	rdb.LPush(t.Context(), "queue:a", "0")
	u := mustTake(t, f, 1)[0]
	_, err := f.Settle(t.Context(), []Move{{Unit: u, To: ToQueue}, {Unit: u, To: ToDead, Score: 1}, {Unit: u, To: ToQueue}})
	if err != nil {
		t.Fatal(err)
	}
	if n := rdb.LLen(t.Context(), "queue:a").Val() + rdb.ZCard(t.Context(), keys.Dead).Val(); n != 1 {
		t.Errorf("the job is in %d places", n)
	}
}

// Redis forgets, and the writing back breaks off at each of its commands: the
// next call writes back all, and a late twin of it is refused.
func TestWritingBackBreaksOff(t *testing.T) {
	_, url := redistest.New(t)
	opt, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opt.MaxRetries = -1
	rdb := redis.NewClient(opt)
	defer func() { _ = rdb.Close() }()
	b := &breaker{left: 1 << 30}
	broken := redis.NewClient(opt)
	defer func() { _ = broken.Close() }()
	broken.AddHook(b)
	for commands := range 8 {
		b.left = 1 << 30
		rdb.FlushDB(t.Context())
		var units []Unit
		env := testEnv(broken, Strict{"a", "b"})
		env.Held = func() []Unit { return units }
		f := mustOpen(t, env)
		for i := range 600 {
			rdb.LPush(t.Context(), "queue:a", fmt.Sprint("a", i))
			rdb.LPush(t.Context(), "queue:b", fmt.Sprint("b", i))
		}
		for len(units) < 1200 {
			units = append(units, mustTake(t, f, 700)...)
		}
		rdb.FlushDB(t.Context())
		b.left = commands
		before := f.generation
		err := f.Renew(t.Context())
		b.left = 1 << 30
		if err != nil {
			if err := f.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			if commands > 1 && f.generation < before+2 {
				t.Errorf("broken off after %d commands: generation %d, was %d", commands, f.generation, before)
			}
		}
		for i, wip := range f.cur.wips[:len(f.names)] {
			if n := rdb.HLen(t.Context(), wip).Val(); n != 600 {
				t.Errorf("broken off after %d commands: %d units in progress from queue %d", commands, n, i)
			}
		}
	}
}
