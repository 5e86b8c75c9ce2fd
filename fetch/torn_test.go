package fetch

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/parcel"
	"github.com/troupehq/troupe/internal/redistest"
)

func moved(t *testing.T, f *reliable, u Unit, text string) {
	t.Helper()
	if _, err := f.Settle(t.Context(), []Move{{Unit: u, To: ToRetry, Score: 1, Payload: []byte(text)}}); err != nil {
		t.Fatal(err)
	}
}

// A replica that was promoted knows a parcel closed that is open here: what goes by
// itself from then on opens it again.
func TestAFailoverForgetsThatAParcelWasOpened(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	wip := f.cur.wips[0]
	fillQueue(t, rdb, "a", parcel.Size)
	units := mustTake(t, f, parcel.Size)
	list := units[0].Parcel.list
	before, jobs := rdb.HGetAll(ctx, wip).Val(), rdb.LRange(ctx, list, 0, -1).Val()
	moved(t, f, units[0], "forgotten")

	rdb.Del(ctx, wip, keys.Retry)
	rdb.HSet(ctx, wip, before)
	rdb.RPush(ctx, list, jobs)
	mustTake(t, f, 0, units[1:60]...)
	moved(t, f, units[63], "decided afterwards")
	if n := rdb.ZCard(ctx, keys.Retry).Val(); n != 1 {
		t.Errorf("%d retries, want the one decided afterwards", n)
	}
	held := inPlace(t, rdb, wip)
	for _, u := range units[60:63] {
		if held[u.Receipt] == "" {
			t.Errorf("unit %s is gone", u.Receipt)
		}
	}
	if len(held) != 4 { // and the one whose move was forgotten
		t.Errorf("%d units in the private place, want 4", len(held))
	}
}

// Redis has lost the list of a parcel, or the registry and not the parcel: what this
// process holds is written back, and nothing of the parcel stays.
func TestAParcelOfWhichRedisHasLostAPart(t *testing.T) {
	for name, lose := range map[string]func(context.Context, *redis.Client, *reliable, Unit){
		"its list": func(ctx context.Context, rdb *redis.Client, _ *reliable, u Unit) { rdb.Del(ctx, u.Parcel.list) },
		"units": func(ctx context.Context, rdb *redis.Client, _ *reliable, u Unit) {
			rdb.LTrim(ctx, u.Parcel.list, 3, -1)
		},
		"its field": func(ctx context.Context, rdb *redis.Client, f *reliable, u Unit) {
			rdb.Del(ctx, f.cur.wips[0], keys.Procs, f.cur.lease)
		},
		"the registry": func(ctx context.Context, rdb *redis.Client, f *reliable, _ Unit) {
			rdb.Del(ctx, keys.Procs, f.cur.lease)
		},
	} {
		for _, ack := range []bool{false, true} {
			rdb, _ := redistest.New(t)
			env := testEnv(rdb, Strict{"a"})
			var held []Unit
			env.Held = func() []Unit { return held }
			f := mustOpen(t, env)
			fillQueue(t, rdb, "a", parcel.Size)
			held = mustTake(t, f, parcel.Size)
			lose(t.Context(), rdb, f, held[0])
			all, first := held, 0
			if !ack {
				moved(t, f, held[0], "x")
				if n := rdb.ZCard(t.Context(), keys.Retry).Val(); n != 1 {
					t.Errorf("%s: %d retries, want 1", name, n)
				}
				first = 1
			}
			held = all[first:]
			mustTake(t, f, 0, all[first:40]...)
			held = all[40:]
			if n := len(inPlace(t, rdb, f.cur.wips[0])); n != parcel.Size-40 {
				t.Errorf("%s, first acked %v: %d units in the private place, want %d", name, ack, n, parcel.Size-40)
			}
			mustTake(t, f, 0, held...)
			noPlaces(t, rdb)
		}
	}
}

// A rescuer that finds units missing puts back the others and says so; a field that
// only looks like a parcel is a unit.
func TestARescuerFindsAParcelTorn(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	fillQueue(t, rdb, "a", 3)
	units := mustTake(t, f, 10)
	rdb.LPop(t.Context(), units[0].Parcel.list)
	rdb.HSet(t.Context(), f.cur.wips[0], "1zz+", "no parcel")
	expire(t, rdb, f.cur.id)
	var log bytes.Buffer
	r := newTestRescuer(t, rdb, false)
	r.log = zerolog.New(&log)
	if _, err := r.Rescue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := rdb.LRange(t.Context(), "queue:a", 0, -1).Val(); len(got) != 3 {
		t.Errorf("the queue: %q", got)
	}
	if !bytes.Contains(log.Bytes(), []byte(`"jobs":1,"message":"redis has lost jobs`)) {
		t.Errorf("log: %s", log.Bytes())
	}
	noPlaces(t, rdb)
}

// A parcel that a rescuer cannot open stays where it is, until it can be. All else of
// the hash is put back.
func TestARescuerPassesOverAParcel(t *testing.T) {
	for _, judged := range []bool{false, true} {
		for _, what := range []string{"its list is none", "its list may not be read"} {
			rdb, _ := redistest.New(t)
			ctx := t.Context()
			f := mustOpen(t, testEnv(rdb, Strict{"a"}))
			fillQueue(t, rdb, "a", 2*parcel.Size)
			units := mustTake(t, f, 2*parcel.Size)
			rdb.LPush(ctx, keys.Queue("a"), "single")
			mustTake(t, f, 1)
			expire(t, rdb, f.cur.id)
			key := units[0].Parcel.list
			jobs := rdb.LRange(ctx, key, 0, -1).Val()
			lame := rdb
			if what == "its list is none" {
				rdb.Del(ctx, key)
				rdb.Set(ctx, key, "wrong type", 0)
			} else {
				rules := []any{"ACL", "SETUSER", "lame", "reset", "on", "nopass", "+@all", "~[^t]*", "~troupe:[^p]*", "~troupe:procs", "~" + units[parcel.Size].Parcel.list}
				if err := rdb.Do(ctx, rules...).Err(); err != nil {
					t.Fatal(err)
				}
				opt := *rdb.Options()
				opt.Username, opt.Password = "lame", "any" // without one the client does not log in
				lame = redis.NewClient(&opt)
				defer func() { _ = lame.Close() }()
			}
			for round := range 2 {
				_, err := newTestRescuer(t, lame, judged).Rescue(ctx)
				if err == nil || !strings.Contains(err.Error(), "parcels that cannot be opened: 1, the first "+units[0].Parcel.field) {
					t.Errorf("%s, round %d: %v", what, round, err)
				}
				got := list(t, rdb, "a")
				if want := append(upTo(2 * parcel.Size)[parcel.Size:], "single"); !slices.Equal(got, want) {
					t.Errorf("%s, round %d: the queue: %q", what, round, got)
				}
			}
			if lame == rdb {
				rdb.Del(ctx, key)
				rdb.RPush(ctx, key, jobs)
			}
			if _, err := newTestRescuer(t, rdb, judged).Rescue(ctx); err != nil {
				t.Fatal(err)
			}
			if got, want := list(t, rdb, "a"), append(upTo(2*parcel.Size), "single"); !slices.Equal(got, want) {
				t.Errorf("%s: the queue in the end: %q", what, got)
			}
			noPlaces(t, rdb)
		}
	}
}

// Who may not SORT, or may write no list of a parcel, fetches all the same.
func TestAUserWhoMayNotMakeParcels(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	for name, rules := range map[string][]any{
		"no SORT":  {"+@all", "-sort", "~*"},
		"no lists": {"+@all", "~queue:*", "~troupe:lease:*", "~troupe:wip:*", "~paused"},
	} {
		if err := rdb.Do(ctx, append([]any{"ACL", "SETUSER", "narrow", "reset", "on", "nopass"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
		opt := *rdb.Options()
		opt.Username, opt.Password = "narrow", "any" // without one the client does not log in
		narrow := redis.NewClient(&opt)
		f := mustOpen(t, testEnv(rdb, Strict{"a"}))
		fillQueue(t, rdb, "a", 40)
		args, _ := f.takeArgs(f.cur, "zz", 40, 2, parcel.Size, f.wants(40, f.rand), nil, nil)
		if _, err := takeScript.run(ctx, narrow, args); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		held := inPlace(t, rdb, f.cur.wips[0])
		if len(held) != 40 || held["zz000"] != "0" || held["zz013"] != "39" {
			t.Errorf("%s: %d units are in progress, want 40: %q", name, len(held), held)
		}
		_ = narrow.Close()
		rdb.FlushDB(ctx)
	}
}
