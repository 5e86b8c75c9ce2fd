package fetch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/parcel"
	"github.com/troupehq/troupe/internal/redistest"
)

// init has units share parcels wherever a Take brings two of one queue, so that all
// tests of this package, the crashes and lost replies above all, are about them, too.
func init() { parcel.Least = 1 }

// fillQueue pushes jobs 0..n-1, 0 the oldest.
func fillQueue(tb testing.TB, rdb *redis.Client, queue string, n int) {
	tb.Helper()
	jobs := make([]any, n)
	for i := range jobs {
		jobs[i] = fmt.Sprint(i)
	}
	if err := rdb.LPush(context.Background(), keys.Queue(queue), jobs...).Err(); err != nil {
		tb.Fatal(err)
	}
}

// inPlace reads a private place.
func inPlace(tb testing.TB, rdb *redis.Client, wip string) map[string]string {
	tb.Helper()
	units, err := parcel.Read(context.Background(), rdb, wip)
	if err != nil {
		tb.Fatal(err)
	}
	return units
}

// noPlaces checks that nothing is in progress anywhere.
func noPlaces(tb rapid.TB, rdb *redis.Client) {
	tb.Helper()
	for _, pattern := range []string{"troupe:wip:*", "troupe:parcel:*"} {
		for _, key := range rdb.Keys(context.Background(), pattern).Val() {
			tb.Errorf("left: %s, a %s", key, rdb.Type(context.Background(), key).Val())
		}
	}
}

func payloads(units []Unit) (out []string) {
	for _, u := range units {
		out = append(out, string(u.Payload))
	}
	return out
}

func upTo(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func TestUnitsOfOneTakeShareFields(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	wip := f.cur.wips[0]
	fillQueue(t, rdb, "a", 100)
	units := mustTake(t, f, 200)
	if got := payloads(units); !slices.Equal(got, upTo(100)) {
		t.Errorf("took %q", got)
	}
	if n := rdb.HLen(t.Context(), wip).Val(); n != 2 {
		t.Errorf("%d fields, want 2 parcels", n)
	}
	held := inPlace(t, rdb, wip)
	for _, u := range units {
		if held[u.Receipt] != string(u.Payload) {
			t.Errorf("receipt %s holds %q, want %q", u.Receipt, held[u.Receipt], u.Payload)
		}
	}
	mustTake(t, f, 0, units...)
	noPlaces(t, rdb)
	if f.thrift.opened != 0 {
		t.Errorf("opened %v of the parcels", f.thrift.opened)
	}
}

// A parcel holds any bytes, of any size.
func TestParcelsOfAnyBytes(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	want := []string{"zero \x00 byte", "", "12", "x\xff", strings.Repeat("large", 10_000), "-0"}
	for range 8 {
		for _, job := range want {
			rdb.LPush(t.Context(), "queue:a", job)
		}
	}
	units := mustTake(t, f, 100)
	mustTake(t, f, 0, units[0])
	held := inPlace(t, rdb, f.cur.wips[0])
	for i, u := range units {
		if string(u.Payload) != want[i%6] || u.Parcel == nil {
			t.Errorf("unit %d is %.20q, in a parcel: %v", i, u.Payload, u.Parcel != nil)
		}
		if i > 0 && held[u.Receipt] != want[i%6] {
			t.Errorf("unit %d in Redis is %.20q", i, held[u.Receipt])
		}
	}
	mustTake(t, f, 0, units[1:]...)
	noPlaces(t, rdb)
}

// Units of a parcel go their own ways: acked alone, retried, put back.
func TestUnitsLeaveTheirParcel(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	fillQueue(t, rdb, "a", 32)
	units := mustTake(t, f, 100)
	mustTake(t, f, 0, units[3:7]...)
	mustTake(t, f, 0, units[9])
	moves := []Move{{Unit: units[0], To: ToRetry, Score: 5, Payload: []byte("changed")}, {Unit: units[1], To: ToQueue}, {Unit: units[2], To: ToQueue}}
	if _, err := f.Settle(t.Context(), moves); err != nil {
		t.Fatal(err)
	}
	mustTake(t, f, 0, append(units[10:], units[7:9]...)...)
	if got := rdb.ZRange(t.Context(), keys.Retry, 0, -1).Val(); !slices.Equal(got, []string{"changed"}) {
		t.Errorf("retry: %q", got)
	}
	if got := rdb.LRange(t.Context(), "queue:a", 0, -1).Val(); !slices.Equal(got, []string{"2", "1"}) {
		t.Errorf("the queue: %q", got)
	}
	noPlaces(t, rdb)
}

// Parcels all of whose units fail are moved as a whole, beside units that are not; a
// settlement whose reply was lost and one that meets another composition of the same
// moves change nothing more.
func TestWholeParcelsAreMoved(t *testing.T) {
	for _, again := range []string{"", "whole", "one by one"} {
		rdb, _ := redistest.New(t)
		f := mustOpen(t, testEnv(rdb, Strict{"a"}))
		const size = parcel.Size
		fillQueue(t, rdb, "a", 4*size)
		units := mustTake(t, f, 5*size)
		moves := make([]Move, 0, 4*size)
		var want []string
		for i, u := range units[:4*size-2] { // the last parcel is not complete
			m := Move{Unit: u, To: ToRetry, Score: float64(i + 1), Payload: fmt.Appendf(nil, "failed %d", i)}
			if i >= size && i < 2*size && i%2 == 0 {
				m.To = ToDead
			} else {
				want = append(want, string(m.Payload))
			}
			moves = append(moves, m)
		}
		if _, err := f.Settle(t.Context(), moves); err != nil {
			t.Fatal(err)
		}
		if got := f.thrift.opened; got == 0 || got > 2./16 {
			t.Errorf("%q: thrift counts %v, expected two parcels that were opened", again, got)
		}
		switch again {
		case "whole":
			if _, err := f.Settle(t.Context(), moves); err != nil {
				t.Fatal(err)
			}
		case "one by one":
			for _, m := range moves {
				if _, err := f.Settle(t.Context(), []Move{m}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := rdb.ZRange(t.Context(), keys.Retry, 0, -1).Val(); !slices.Equal(got, want) {
			t.Errorf("%q: retry holds %q, want %q", again, got, want)
		}
		if n := rdb.ZCard(t.Context(), keys.Dead).Val(); n != size/2 {
			t.Errorf("%q: %d dead, want %d", again, n, size/2)
		}
		mustTake(t, f, 0, units[4*size-2:]...)
		noPlaces(t, rdb)
	}
}

// A destination that refuses a whole parcel keeps it where it is.
func TestAWholeParcelThatIsRefused(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	fillQueue(t, rdb, "a", 32)
	rdb.Set(t.Context(), keys.Retry, "wrong type", 0)
	moves := make([]Move, 0, 32)
	for _, u := range mustTake(t, f, 100) {
		moves = append(moves, Move{Unit: u, To: ToRetry, Score: 1, Payload: []byte("x" + string(u.Payload))})
	}
	if _, err := f.Settle(t.Context(), moves); err == nil {
		t.Error("no error")
	}
	if held := inPlace(t, rdb, f.cur.wips[0]); len(held) != 32 {
		t.Errorf("%d units in the private place, want 32", len(held))
	}
	rdb.Del(t.Context(), keys.Retry)
	if _, err := f.Settle(t.Context(), moves); err != nil {
		t.Fatal(err)
	}
	if n := rdb.ZCard(t.Context(), keys.Retry).Val(); n != 32 {
		t.Errorf("%d retries, want 32", n)
	}
	noPlaces(t, rdb)
}

// An ack of some units that may have opened the parcel, for all that is known,
// is not followed by one of the parcel as a whole.
func TestAParcelThatMayBeOpen(t *testing.T) {
	for _, arrived := range []bool{false, true} {
		rdb, _ := redistest.New(t)
		f := mustOpen(t, testEnv(rdb, Strict{"a"}))
		fillQueue(t, rdb, "a", 32)
		units := mustTake(t, f, 100)
		args, _ := f.takeArgs(f.cur, "zz", 0, 0, parcel.Size, nil, units[:5], nil) // its reply is lost
		if arrived {
			if _, err := takeScript.run(t.Context(), rdb, args); err != nil {
				t.Fatal(err)
			}
		}
		mustTake(t, f, 0, units...)
		noPlaces(t, rdb)
	}
}

// Large units, too few to share parcels, have one each, and go their own ways.
func TestLargeUnitsHaveParcelsOfTheirOwn(t *testing.T) {
	rdb, _ := redistest.New(t)
	env := testEnv(rdb, Strict{"a"})
	env.Bytes = 1 << 30
	f := mustOpen(t, env)
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprint(i, strings.Repeat("x", 50<<10)))
		rdb.LPush(t.Context(), "queue:a", want[i])
	}
	f.thrift.rest = 1 << 20 // as if fewer were wanted than share one
	units := mustTake(t, f, 5)
	for _, u := range units {
		if u.Parcel != nil {
			t.Error("a parcel before the size of a unit is known")
		}
	}
	own := mustTake(t, f, 5, units...)
	for _, u := range own {
		if u.Parcel == nil || u.Parcel.Size() != 1 {
			t.Errorf("unit %.2s has parcel %v, expected one of its own", u.Payload, u.Parcel)
		}
	}
	if got := payloads(append(units, own...)); !slices.Equal(got, want[:10]) {
		t.Errorf("took %.4q", got)
	}
	mustTake(t, f, 0, own[1], own[3])
	if held := inPlace(t, rdb, f.cur.wips[0]); len(held) != 3 || held[own[0].Receipt] != want[5] {
		t.Errorf("%d units in the private place, want 3", len(held))
	}
	for _, m := range []Move{{Unit: own[0], To: ToQueue}, {Unit: own[2], To: ToRetry, Score: 1}} {
		if _, err := f.Settle(t.Context(), []Move{m}); err != nil {
			t.Fatal(err)
		}
	}
	again := mustTake(t, f, 1, own[4])
	if len(again) != 1 || string(again[0].Payload) != want[5] || rdb.ZScore(t.Context(), keys.Retry, want[7]).Val() != 1 {
		t.Errorf("what was given back came again as %d units", len(again))
	}
	mustTake(t, f, 0, again...)
	noPlaces(t, rdb)
}

func TestParcelsOfALostCallAreAdopted(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a", "b"}))
	fillQueue(t, rdb, "a", 50)
	first := mustTake(t, f, 40)
	fillQueue(t, rdb, "b", 40)
	f.calls++
	prefix := receiptPrefix(f.calls)
	args, _ := f.takeArgs(f.cur, prefix, 100, 4, parcel.Size, f.wants(100, f.rand), nil, nil)
	if _, err := takeScript.run(t.Context(), rdb, args); err != nil {
		t.Fatal(err)
	}
	f.lost, f.doubt = append(f.lost, lostCall{prefix: prefix}), true
	units := mustTake(t, f, 100)
	if want := append(upTo(50)[40:], upTo(40)...); !slices.Equal(payloads(units), want) {
		t.Errorf("adopted %q, want %q", payloads(units), want)
	}
	mustTake(t, f, 0, append(first, units...)...)
	noPlaces(t, rdb)
}

func TestParcelsThatRedisHasForgotten(t *testing.T) {
	rdb, _ := redistest.New(t)
	env := testEnv(rdb, Strict{"a"})
	var units []Unit
	env.Held = func() []Unit { return units }
	f := mustOpen(t, env)
	fillQueue(t, rdb, "a", 50)
	units = mustTake(t, f, 100)
	rdb.FlushDB(t.Context())
	f.doubt = true
	if err := f.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := rdb.HLen(t.Context(), f.cur.wips[0]).Val(); n != 50 {
		t.Errorf("%d fields were written back, want 50", n)
	}
	mustTake(t, f, 0, units...)
	noPlaces(t, rdb)
}

// A rescuer puts the units of parcels back in the order of the queue, whether it
// judges them or not; so does one that goes on where another broke off.
func TestParcelsAreRescued(t *testing.T) {
	for _, judged := range []bool{false, true} {
		rdb, _ := redistest.New(t)
		env := testEnv(rdb, Strict{"a"})
		f := mustOpen(t, env)
		fillQueue(t, rdb, "a", 100)
		units := mustTake(t, f, 100)
		mustTake(t, f, 0, units[:3]...) // one parcel is open
		mustTake(t, f, 0, units[64:]...)
		if left, err := f.Close(t.Context()); left != 61 || err != nil {
			t.Errorf("close: %d left, %v", left, err)
		}
		expire(t, rdb, f.cur.id)
		r := newTestRescuer(t, rdb, judged)
		if _, err := r.Rescue(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := upTo(64)[3:]
		slices.Reverse(want)
		if got := rdb.LRange(t.Context(), "queue:a", 0, -1).Val(); !slices.Equal(got, want) {
			t.Errorf("the queue: %q\nwant %q", got, want)
		}
		noPlaces(t, rdb)
	}
}

// Where parcels have to be opened all the time there are none.
func TestParcelsRest(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	shared, alone := 0, 0
	for range 100 {
		fillQueue(t, rdb, "a", 32)
		units := mustTake(t, f, 32)
		if units[0].Parcel != nil {
			shared++
		} else {
			alone++
		}
		mustTake(t, f, 0, units[:1]...)
		mustTake(t, f, 0, units[1:]...)
	}
	if shared == 0 || alone < 60 {
		t.Errorf("%d Takes with parcels, %d without", shared, alone)
	}
}

// Random calls, some of them lost: each unit is at one place, and nothing stays.
func TestParcelsAgainstAModel(t *testing.T) {
	rdb, _ := redistest.New(t)
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		rdb.FlushDB(ctx)
		var held []Unit
		env := testEnv(rdb, Strict{"a", "b"})
		env.Held = func() []Unit { return held }
		fetcher, err := NewReliable(env)
		if err != nil {
			t.Fatal(err)
		}
		f := fetcher.(*reliable)
		if err := f.Open(ctx); err != nil {
			t.Fatal(err)
		}
		pushed, next := map[string]bool{}, 0
		taken := map[string]bool{} // receipts
		hold := func(units []Unit) {
			for _, u := range units {
				if taken[u.Receipt] {
					t.Errorf("%s was taken twice", u.Payload)
				}
				taken[u.Receipt] = true
			}
			held = append(held, units...)
		}
		some := func() (out []Unit) {
			held = slices.DeleteFunc(held, func(u Unit) bool {
				yes := rapid.IntRange(0, 2).Draw(t, "some") > 0
				if yes {
					out = append(out, u)
				}
				return yes
			})
			return out
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				for range rapid.IntRange(1, 40).Draw(t, "jobs") {
					next++
					job := fmt.Sprint("job ", next)
					pushed[job] = true
					rdb.LPush(ctx, keys.Queue([]string{"a", "b"}[next%2]), job)
				}
			case 2:
				f.thrift.rest, f.thrift.mean = rapid.IntRange(0, 1).Draw(t, "rest"), rapid.SampledFrom([]float64{0, 1 << 20}).Draw(t, "mean")
				units, err := f.Take(ctx, rapid.IntRange(1, 60).Draw(t, "n"), nil)
				if err != nil {
					t.Fatal(err)
				}
				hold(units)
			case 3:
				acks := some()
				if rapid.Bool().Draw(t, "lost") { // its reply
					f.calls++
					prefix := receiptPrefix(f.calls)
					args, _ := f.takeArgs(f.cur, prefix, 7, 3, rapid.SampledFrom([]int{1, parcel.Size}).Draw(t, "most"), f.wants(7, f.rand), acks, nil)
					if rapid.Bool().Draw(t, "done") {
						if _, err := takeScript.run(ctx, rdb, args); err != nil {
							t.Fatal(err)
						}
					}
					f.lost, f.doubt = append(f.lost, lostCall{prefix: prefix}), true
					f.page.halved.Store(int32(rapid.IntRange(0, 20).Draw(t, "page"))) // down to one byte
				}
				units, err := f.Take(ctx, 3, acks)
				if err != nil {
					t.Fatal(err)
				}
				hold(units)
				for _, u := range acks {
					delete(pushed, string(u.Payload))
				}
			case 4:
				var moves []Move
				for _, u := range some() {
					moves = append(moves, Move{Unit: u, To: rapid.SampledFrom([]Place{ToQueue, ToRetry, ToBack}).Draw(t, "to"), Score: 1})
				}
				if rapid.Bool().Draw(t, "all fail") {
					for i := range moves {
						moves[i].To, moves[i].Payload = ToRetry, moves[i].Unit.Payload
					}
				}
				if _, err := f.Settle(ctx, moves); err != nil {
					t.Fatal(err)
				}
			case 5:
				if rapid.IntRange(0, 3).Draw(t, "forget") == 0 { // all but the queues and the sets
					rdb.Del(ctx, slices.Concat([]string{keys.Procs, keys.Leases, f.cur.lease}, f.cur.wips, rdb.Keys(ctx, "troupe:parcel:*").Val())...)
					f.doubt = true
					if err := f.Renew(ctx); err != nil { // before it dies
						t.Fatal(err)
					}
				}
			case 6:
				if err := f.Renew(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		if rapid.Bool().Draw(t, "killed") {
			rdb.Del(ctx, f.cur.lease)
			rdb.ZAdd(ctx, keys.Leases, redis.Z{Score: 1, Member: f.cur.id})
			if _, err := newTestRescuer(t, rdb, rapid.Bool().Draw(t, "judged")).Rescue(ctx); err != nil {
				t.Fatal(err)
			}
		} else if _, err := f.Take(ctx, 0, held); err != nil {
			t.Fatal(err)
		} else {
			for _, u := range held {
				delete(pushed, string(u.Payload))
			}
			if left, err := f.Close(ctx); left != 0 || err != nil {
				t.Fatalf("close: %d left, %v", left, err)
			}
		}
		found := slices.Concat(rdb.LRange(ctx, "queue:a", 0, -1).Val(), rdb.LRange(ctx, "queue:b", 0, -1).Val(), rdb.ZRange(ctx, keys.Retry, 0, -1).Val())
		noPlaces(t, rdb)
		for _, job := range found {
			if !pushed[job] {
				t.Errorf("%s is there twice, or was acked", job)
			}
			delete(pushed, job)
		}
		for job := range pushed {
			t.Errorf("%s is lost", job)
		}
		_, _ = f.Close(ctx)
	})
}

// newTestRescuer makes one whose judge, if there is one, puts everything back.
func newTestRescuer(tb rapid.TB, rdb *redis.Client, judged bool) *Rescuer {
	tb.Helper()
	cfg := RescuerConfig{Redis: rdb, Logger: zerolog.Nop(), Window: time.Hour, Identity: "h:9:zz"}
	if judged {
		cfg.Judge = judgeFunc(func(Orphan) Fate { return Fate{} })
	}
	r, err := NewRescuer(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}
