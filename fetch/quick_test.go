package fetch

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/parcel"
	"github.com/troupehq/troupe/internal/redistest"
)

// The quick way through a take ends as the long one does, and a take that is sent
// twice says the same, whatever there is. want tells that the quick way is open.
func TestTheQuickTakeTakesWhatTheLongOneTakes(t *testing.T) {
	rdb, _ := redistest.New(t)
	queues := []string{"a", "b", "c"}
	src := quickHead + "\nreturn redis.error_reply('LONG')"
	onlyQuick := hotScript{src: src, hash: redis.NewScript(src).Hash()}
	var (
		f      *reliable
		prefix string
	)
	for name, c := range map[string]struct {
		set   func(ctx context.Context)
		want  bool
		twice bool // each queue is wanted twice, as by Queues of one's own
	}{
		"nothing":             {set: func(context.Context) {}, want: true},
		"a job":               {set: func(ctx context.Context) { rdb.LPush(ctx, "queue:b", "b1") }, want: true},
		"a job each":          {set: func(ctx context.Context) { push(ctx, rdb, "a1", "b1", "c1") }, want: true},
		"queues wanted twice": {set: func(ctx context.Context) { push(ctx, rdb, "a1", "b1", "c1") }, want: true, twice: true},
		"two jobs of one":     {set: func(ctx context.Context) { push(ctx, rdb, "a1", "b1", "b2") }, want: false},
		"more than is asked": {set: func(ctx context.Context) {
			for i := range 9 {
				push(ctx, rdb, fmt.Sprint("c", i), fmt.Sprint("a", i))
			}
		}, want: false},
		"not a queue":         {set: func(ctx context.Context) { push(ctx, rdb, "a1"); rdb.Set(ctx, "queue:b", "x", 0) }, want: false},
		"a paused queue":      {set: func(ctx context.Context) { push(ctx, rdb, "a1", "b1"); rdb.SAdd(ctx, keys.Paused, "a") }, want: false},
		"no set of paused":    {set: func(ctx context.Context) { push(ctx, rdb, "a1"); rdb.Set(ctx, keys.Paused, "x", 0) }, want: false},
		"a unit in progress":  {set: func(ctx context.Context) { push(ctx, rdb, "a1"); rdb.HSet(ctx, f.cur.wips[0], "x", "a0") }, want: false},
		"not a private place": {set: func(ctx context.Context) { push(ctx, rdb, "a1", "b1"); rdb.Set(ctx, f.cur.wips[0], "x", 0) }, want: false},
		"another's baton":     {set: func(ctx context.Context) { push(ctx, rdb, "a1"); rdb.Set(ctx, f.bell.keys[0].(string), "other", 0) }, want: false},
		"nobody's baton":      {set: func(ctx context.Context) { push(ctx, rdb, "a1"); rdb.Del(ctx, f.bell.keys[0].(string)) }, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			// run gives a new database to a take with these flags.
			run := func(script hotScript, flags string) (reply, again []string, left map[string]any, err error) {
				ctx := t.Context()
				rdb.FlushDB(ctx)
				env := testEnv(rdb, Strict(queues))
				f = mustOpen(t, env)
				rdb.Set(ctx, f.bell.keys[0].(string), f.bell.name, 0)
				c.set(ctx)
				f.calls++
				prefix = receiptPrefix(f.calls)
				wants := f.wants(6, f.rand)
				if c.twice {
					wants = append(wants, wants...)[:5]
				}
				args, _ := f.takeArgs(f.cur, prefix, 6, 0, parcel.Size, wants, nil, &sitting{flags: "sk"})
				at := slices.Index(args, any("skq"))
				if at < 0 {
					t.Fatal("a take of an idle fetcher is not marked as one that may be quick")
				}
				args[at] = flags
				if reply, err = script.run(ctx, rdb, args); err == nil {
					again, err = script.run(ctx, rdb, args)
				}
				return reply, again, contents(t, rdb), err
			}
			long, longAgain, longLeft, err := run(takeScript, "sk")
			if err != nil {
				t.Fatal(err)
			}
			got, again, left, err := run(takeScript, "skq")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(long, got); diff != "" {
				t.Errorf("reply (-long +quick):\n%s", diff)
			}
			if diff := cmp.Diff(longAgain, again); diff != "" {
				t.Errorf("reply to the same once more (-long +quick):\n%s", diff)
			}
			if diff := cmp.Diff(longLeft, left); diff != "" {
				t.Errorf("what is left (-long +quick):\n%s", diff)
			}
			reply, _, _, _ := run(onlyQuick, "skq")
			if quick := len(reply) > 0; quick != c.want {
				t.Errorf("quick: %v, expected %v", quick, c.want)
			}
		})
	}
}

func push(ctx context.Context, rdb *redis.Client, jobs ...string) {
	for _, job := range jobs {
		rdb.LPush(ctx, "queue:"+job[:1], job)
	}
}

// contents are the keys of the database but for what tells fetchers apart.
func contents(t *testing.T, rdb *redis.Client) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, key := range rdb.Keys(t.Context(), "*").Val() {
		switch kind := rdb.Type(t.Context(), key).Val(); kind {
		case "string":
			out[key] = rdb.Get(t.Context(), key).Val()
		case "list":
			out[key] = rdb.LRange(t.Context(), key, 0, -1).Val()
		case "hash":
			out[key] = rdb.HGetAll(t.Context(), key).Val()
		case "set":
			out[key] = rdb.SMembers(t.Context(), key).Val()
		case "zset":
			out[key] = rdb.ZRange(t.Context(), key, 0, -1).Val()
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
	}
	delete(out, keys.Procs)
	delete(out, keys.Leases)
	return out
}

// What a quick take took whose reply is lost is found by the next call, and by a
// rescuer if there is none.
func TestAQuickTakeWhoseReplyIsLost(t *testing.T) {
	for _, dies := range []bool{false, true} {
		rdb, _ := redistest.New(t)
		f := mustOpen(t, testEnv(rdb, Strict{"a", "b"}))
		rdb.Set(t.Context(), f.bell.keys[0].(string), f.bell.name, 0)
		push(t.Context(), rdb, "a1", "b1")
		f.calls++
		prefix := receiptPrefix(f.calls)
		args, _ := f.takeArgs(f.cur, prefix, 6, 0, parcel.Size, f.wants(6, f.rand), nil, &sitting{flags: "sk"})
		if !slices.Contains(args, any("skq")) {
			t.Fatal("the take is not marked as one that may be quick")
		}
		if _, err := takeScript.run(t.Context(), rdb, args); err != nil {
			t.Fatal(err)
		}
		if dies {
			expire(t, rdb, f.cur.id)
			if _, err := newTestRescuer(t, rdb, false).Rescue(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, job := range []string{"a1", "b1"} {
				if got := rdb.LRange(t.Context(), "queue:"+job[:1], 0, -1).Val(); !slices.Equal(got, []string{job}) {
					t.Errorf("queue %s holds %q after the rescue", job[:1], got)
				}
			}
			continue
		}
		f.lost, f.doubt = append(f.lost, lostCall{prefix: prefix}), true
		units := mustTake(t, f, 6)
		if got := payloads(units); !slices.Equal(got, []string{"a1", "b1"}) {
			t.Errorf("adopted %q", got)
		}
		mustTake(t, f, 0, units...)
		noPlaces(t, rdb)
	}
}
