package inspect_test

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func raws(entries []*inspect.SortedEntry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Raw)
	}
	return out
}

// An empty entry is one as any other: Ruby puts what is empty in a queue into the dead set.
func TestAnEmptyEntryEndsNoWalk(t *testing.T) {
	i, rdb, _ := start(t)
	for _, score := range []float64{-1, 0, 5} {
		add(t, rdb, "dead", score, "")
		add(t, rdb, "dead", 0, "a", "b")
		for n, walk := range []iter.Seq2[*inspect.SortedEntry, error]{i.DeadSet.Each(t.Context()), i.DeadSet.Fetch(t.Context(), -9, 9, "")} {
			n0 := 0
			for e, err := range walk {
				harness.OK(t, err)
				if n0++; n0 > 3 {
					t.Fatalf("score %v, walk %d: %q comes again", score, n, e.Raw)
				}
			}
			if n0 != 3 {
				t.Errorf("score %v, walk %d: %d entries", score, n, n0)
			}
		}
	}
	push(t, rdb, "q", "", "a", "")
	for _, walk := range walks {
		harness.Equal(t, "jobs", len(all(t, walk(i.Queue("q"), t.Context()))), 3)
	}
}

func TestEachIsHighestFirst(t *testing.T) {
	i, rdb, _ := start(t)
	for n := range 260 {
		add(t, rdb, "dead", float64(n/3), failed(n, "a", 0)) // three of a score
	}
	set := i.DeadSet
	want := rdb.ZRange(t.Context(), "dead", 0, -1).Val()
	slices.Reverse(want)
	if got := raws(all(t, set.Each(t.Context()))); !slices.Equal(got, want) {
		t.Errorf("got %d entries, want %d, in order", len(got), len(want))
	}
	for _, tt := range []struct {
		offset, limit int
		lowestFirst   bool
		want          []string
	}{
		{0, 3, false, want[:3]},
		{255, 25, false, want[255:]},
		{300, 25, false, nil},
		{0, 2, true, []string{want[259], want[258]}},
	} {
		page, size, err := set.Page(t.Context(), tt.offset, tt.limit, tt.lowestFirst)
		harness.OK(t, err)
		if !slices.Equal(raws(page), tt.want) || size != 260 {
			t.Errorf("page %d+%d: got %v of %d", tt.offset, tt.limit, raws(page), size)
		}
	}
	if _, _, err := set.Page(t.Context(), 0, 0, false); err == nil {
		t.Error("a page of nothing: no error")
	}
	harness.Equal(t, "size", harness.Must(set.Size(t.Context()))(t), 260)
	if n := harness.Must(set.Clear(t.Context()))(t); n != 260 || rdb.Exists(t.Context(), "dead").Val() != 0 {
		t.Errorf("cleared %d", n)
	}
	harness.Equal(t, "entries of nothing", len(all(t, set.Each(t.Context()))), 0)
}

func TestScoresAreExact(t *testing.T) {
	i, rdb, _ := start(t)
	set := i.ScheduledSet
	scores := []float64{
		1695225033.5352254, 1695225033.5352256, 1695225033, 0, 0.1, 1e-7, 1e15, 123456789.123456789,
		math.MaxFloat64, math.SmallestNonzeroFloat64, -1.5, math.Inf(1), math.Inf(-1),
	}
	for n, score := range scores {
		add(t, rdb, "schedule", score, job(n, "a"))
	}
	for n, score := range scores {
		e := only(t, set.Fetch(t.Context(), score, score, ""))
		text := strconv.FormatFloat(score, 'f', -1, 64) + "-" + jid(n)
		if e.JID != jid(n) || e.Score != score || e.Key() != text {
			t.Errorf("%v: got %s", score, e.Key())
		}
		if got, err := set.Lookup(t.Context(), text); err != nil || got.Raw != e.Raw {
			t.Errorf("%s: %v", text, err)
		}
	}
	e := harness.Must(set.Lookup(t.Context(), "1695225033.0-"+jid(2)))(t) // as Ruby prints it
	if e.Key() != "1695225033-"+jid(2) || !e.At.Equal(time.Unix(1695225033, 0)) {
		t.Errorf("got %s at %v", e.Key(), e.At)
	}
	if at := harness.Must(set.FindJob(t.Context(), jid(0)))(t).At; !at.Equal(time.Unix(1695225033, 535225400)) {
		t.Errorf("at %v", at)
	}
	// Milliseconds by mistake are seconds of a far year; what has no year of four digits is no time.
	for score, want := range map[float64]string{1.895e11: "7975-01-07", 1895e9: "", 1e15: "", -1e12: "", math.Inf(1): "", -1.5: "1969-12-31"} {
		add(t, rdb, "schedule", score, job(50, "a"))
		got := ""
		if at := harness.Must(set.FindJob(t.Context(), jid(50)))(t).At; !at.IsZero() {
			got = at.Format(time.DateOnly)
		}
		if got != want {
			t.Errorf("the score %v is at %s, want %s", score, got, want)
		}
	}
	for _, key := range []string{"", "5", "x-y", "-", "nan-x", "--1"} {
		if _, err := set.Lookup(t.Context(), key); err == nil || errors.Is(err, inspect.ErrNotFound) {
			t.Errorf("key %q: %v", key, err)
		}
	}
	if _, err := set.Lookup(t.Context(), "1695225033-other"); !errors.Is(err, inspect.ErrNotFound) {
		t.Errorf("another job: %v", err)
	}
}

func TestFetchByRangeAndJID(t *testing.T) {
	i, rdb, _ := start(t)
	var ties []string
	for n := range 120 {
		ties = append(ties, job(n, "a"))
	}
	add(t, rdb, "schedule", 100, ties...)
	add(t, rdb, "schedule", 99, job(500, "a"))
	add(t, rdb, "schedule", 100.5, job(501, "a"))
	set := i.ScheduledSet
	for _, tt := range []struct {
		from, to float64
		jid      string
		want     int
	}{
		{100, 100, "", 120}, {99, 100.5, "", 122}, {99.5, 100, jid(7), 1}, {100, 100, jid(500), 0},
		{101, 200, "", 0}, {200, 100, "", 0}, {math.Inf(-1), 99, "", 1},
	} {
		got := raws(all(t, set.Fetch(t.Context(), tt.from, tt.to, tt.jid)))
		if len(got) != tt.want {
			t.Errorf("%v to %v of %q: got %d, want %d", tt.from, tt.to, tt.jid, len(got), tt.want)
		}
	}
	want := rdb.ZRange(t.Context(), "schedule", 0, -1).Val()
	if got := raws(all(t, set.Fetch(t.Context(), 0, 1e9, ""))); !slices.Equal(got, want) {
		t.Error("a range is not the lowest first")
	}
}

func TestScanAndFind(t *testing.T) {
	i, rdb, _ := start(t)
	var many []string
	for n := range 500 {
		many = append(many, failed(n, "a", 0))
	}
	add(t, rdb, "retry", 50.25, many...)
	odd := `{"class":"Odd","args":["[x]*?"],"jid":"a[b]*\"é<"}`
	add(t, rdb, "retry", 1695225036.2125871, odd, `{"class":"Odd","args":[],"jid":"axb"}`, "not json at all", `{"class":"NoID"}`)
	set := i.RetrySet
	for glob, want := range map[string]int{
		"": 504, "*": 504, "RuntimeError": 500, "Odd": 2, "not json": 1, jid(3): 1, "nothing": 0,
		`{"class*`: 3, "a[b]": 2, `a\[b]`: 1, "O?d": 2, "é": 501,
	} {
		seen := make(map[string]bool)
		for e, err := range set.Scan(t.Context(), glob) {
			harness.OK(t, err)
			seen[e.Raw] = true
		}
		if len(seen) != want {
			t.Errorf("%q: got %d, want %d", glob, len(seen), want)
		}
	}
	for _, id := range []string{jid(499), `a[b]*"é<`, "axb"} {
		if e, err := set.FindJob(t.Context(), id); err != nil || e.JID != id || e.Score != 50.25 && e.Score != 1695225036.2125871 {
			t.Errorf("find %q: %v", id, err)
		}
	}
	for _, id := range []string{"", "a", "*", "not json"} {
		if e, err := set.FindJob(t.Context(), id); !errors.Is(err, inspect.ErrNotFound) {
			t.Errorf("find %q: %v, %v", id, e, err)
		}
	}
	e := harness.Must(set.Lookup(t.Context(), "1695225036.2125871-"))(t)
	if e.Err == nil && e.Payload.Class() != "NoID" {
		t.Errorf("without a jid: %s", e.Raw)
	}
}

func TestWhatIsNoJobIsListedWithItsBytes(t *testing.T) {
	i, rdb, _ := start(t)
	for n, raw := range []string{"[1]", `"x"`, "5", "null", "{", "\xff\x00<", " ", strings.Repeat("[", 101)} {
		add(t, rdb, "dead", float64(n), raw)
		e := only(t, i.DeadSet.Fetch(t.Context(), float64(n), float64(n), ""))
		if e.Raw != raw || e.Err == nil || e.Summary().Class != "" || e.JID != "" || e.Queue != "" || e.Summary().Latency != 0 {
			t.Errorf("%q: %+v", raw, e)
		}
		if args := e.Summary().Args; len(args) < 4 || args[0] != '[' || e.Payload.Args() != nil {
			t.Errorf("%q: args %s", raw, args)
		}
	}
	if _, err := i.DeadSet.Lookup(t.Context(), "3-"); err != nil {
		t.Error(err)
	}
}

func TestScheduleStoresTheJobAsItIs(t *testing.T) {
	i, rdb, _ := start(t)
	at := time.Unix(1695225036, 212587100)
	p, err := troupe.ParsePayload([]byte(`{"class":"X", "args":[1e3]}`))
	harness.OK(t, err)
	wakeups := rdb.Subscribe(t.Context(), "troupe:wakeup")
	defer wakeups.Close()
	harness.Must(wakeups.Receive(t.Context()))(t)
	harness.OK(t, i.ScheduledSet.Schedule(t.Context(), at, p))
	if got := fmt.Sprint(rdb.ZRangeWithScores(t.Context(), "schedule", 0, -1).Val()); got != `[{1.695225036212587e+09 {"class":"X", "args":[1e3]}}]` {
		t.Errorf("got %s", got)
	}
	harness.Must(wakeups.ReceiveMessage(t.Context()))(t) // the poller is told
	if err := i.ScheduledSet.Schedule(t.Context(), time.Unix(-1, 0), p); err == nil {
		t.Error("a negative score: no error")
	}
	p, _ = troupe.ParsePayload([]byte("{\"class\":\"\xff\"}"))
	if err := i.ScheduledSet.Schedule(t.Context(), at, p); err == nil {
		t.Error("not UTF-8: no error")
	}
}

// Entries that stay with their score come exactly once, in order, whatever is
// added, removed and moved meanwhile by the loop's body or by others; also when
// many share a score.
func TestEachOfALiveSet(t *testing.T) {
	rdb, _ := redistest.New(t)
	set := inspect.New(rdb).RetrySet
	rapid.Check(t, func(t *rapid.T) {
		ctx := t.Context()
		harness.OK(t, rdb.FlushDB(ctx).Err())
		next := 0
		span := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "scores")
		fresh := func(n int) {
			for range n {
				next++
				add(t, rdb, "retry", float64(rand.IntN(span)), failed(next, "a", 0))
			}
		}
		fresh(rapid.IntRange(1, 200).Draw(t, "size"))
		staying := make(map[string]bool)
		for _, raw := range rdb.ZRange(ctx, "retry", 0, -1).Val() {
			staying[raw] = true
		}
		up := rapid.Bool().Draw(t, "up")
		walk := set.Each(ctx)
		if up {
			walk = set.Fetch(ctx, 0, 2000, "")
		}
		shown := make(map[string]int)
		var order []*inspect.SortedEntry
		for e, err := range walk {
			harness.OK(t, err)
			shown[e.Raw]++
			if n := len(order); n > 0 {
				a, b := order[n-1], e
				if up {
					a, b = b, a
				}
				if a.Score < b.Score || a.Score == b.Score && a.Raw <= b.Raw {
					t.Fatalf("%s and %s are out of order", a.Key(), b.Key())
				}
			}
			order = append(order, e)
			if rapid.IntRange(0, 4).Draw(t, "busy") != 0 {
				continue
			}
			other := rapid.SampledFrom(order).Draw(t, "shown")
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				fresh(rapid.IntRange(1, 20).Draw(t, "added"))
			case 1:
				harness.Must(e.Delete(ctx))(t)
				delete(staying, e.Raw)
			case 2:
				harness.OK(t, rdb.ZRem(ctx, "retry", other.Raw).Err())
				delete(staying, other.Raw)
			case 3:
				harness.OK(t, rdb.ZAddXX(ctx, "retry", redis.Z{Score: float64(rand.IntN(span)), Member: other.Raw}).Err())
				delete(staying, other.Raw)
			case 4:
				for _, raw := range rdb.ZPopMin(ctx, "retry", 3).Val() {
					delete(staying, raw.Member.(string))
				}
			}
			if next > 1000 {
				return
			}
		}
		for raw := range staying {
			if shown[raw] != 1 {
				t.Fatalf("%s was shown %d times", raw, shown[raw])
			}
		}
	})
}

// A page of huge entries is followed by smaller ones: bounded by bytes.
func TestHugeEntriesAreReadInSmallPages(t *testing.T) {
	i, rdb, _ := start(t)
	for n := range 60 {
		add(t, rdb, "dead", float64(n), strconv.Itoa(n)+strings.Repeat("x", 400<<10))
	}
	before := pagesRead(t, rdb)
	n := 0
	for e, err := range i.DeadSet.Each(t.Context()) {
		harness.OK(t, err)
		harness.Must(e.Delete(t.Context()))(t)
		n++
	}
	if n != 60 || rdb.Exists(t.Context(), "dead").Val() != 0 {
		t.Errorf("shown %d", n)
	}
	if calls := pagesRead(t, rdb) - before; calls < 7 { // 50 at first, then 2 each
		t.Errorf("%d pages", calls)
	}
}

// pagesRead returns how often the server has read a page.
func pagesRead(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	_, rest, _ := strings.Cut(rdb.Info(t.Context(), "commandstats").Val(), "cmdstat_zrange:calls=")
	calls, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.Atoi(calls)
	return n
}
