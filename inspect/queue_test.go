package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestQueuesAreSortedAndSummariesFullestFirst(t *testing.T) {
	i, rdb, _ := start(t)
	push(t, rdb, "b", job(1, "b"))
	push(t, rdb, "a", job(2, "a"))
	push(t, rdb, "full", job(3, "full"), job(4, "full"))
	harness.OK(t, rdb.SAdd(t.Context(), "queues", "empty").Err())
	harness.OK(t, rdb.SAdd(t.Context(), "paused", "a").Err())
	var names []string
	for _, q := range harness.Must(i.Queues(t.Context()))(t) {
		one := harness.Must(i.Queue(q.Name).Summary(t.Context()))(t)
		names = append(names, fmt.Sprint(one.Name, one.Size, one.Paused))
	}
	slices.Sort(names)
	if got := fmt.Sprint(names); got != "[a1 true b1 false empty0 false full2 false]" {
		t.Errorf("got %s", got)
	}
	names = nil
	for _, s := range harness.Must(i.Queues(t.Context()))(t) {
		names = append(names, fmt.Sprint(s.Name, s.Size, s.Paused, s.Latency > 0))
	}
	if got := fmt.Sprint(names); got != "[full2 false true a1 true true b1 false true empty0 false false]" {
		t.Errorf("got %s", got)
	}
}

func TestPauseAndUnpause(t *testing.T) {
	i, rdb, _ := start(t)
	push(t, rdb, "a", job(1, "a"))
	push(t, rdb, "b", job(2, "b"))
	is := func(want string) {
		t.Helper()
		var got []string
		for _, s := range harness.Must(i.Queues(t.Context()))(t) {
			got = append(got, fmt.Sprint(s.Name, s.Paused, harness.Must(i.Queue(s.Name).Summary(t.Context()))(t).Paused))
		}
		slices.Sort(got)
		if fmt.Sprint(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for range 2 {
		harness.OK(t, i.Queue("a").SetPaused(t.Context(), true))
		is("[atrue true bfalse false]")
	}
	harness.EqualList(t, "the set has", harness.Must(rdb.SMembers(t.Context(), "paused").Result())(t), []string{"a"})
	for range 2 {
		harness.OK(t, i.Queue("a").SetPaused(t.Context(), false))
		is("[afalse false bfalse false]")
	}
	harness.OK(t, rdb.Set(t.Context(), "paused", "x", 0).Err())
	if err := i.Queue("a").SetPaused(t.Context(), true); err == nil {
		t.Error("no error of a key of a wrong type")
	}
	if err := i.Queue("a").SetPaused(t.Context(), false); err == nil {
		t.Error("no error of a key of a wrong type")
	}
}

func TestQueuePagesAreNewestFirst(t *testing.T) {
	i, rdb, _ := start(t)
	push(t, rdb, "a", job(1, "a"), job(2, "a"), job(3, "a"), "{")
	q := i.Queue("a")
	page, size, err := q.Page(t.Context(), 0, 2)
	harness.OK(t, err)
	if size != 4 || len(page) != 2 || page[0].Raw != "{" || page[1].JID != jid(3) {
		t.Errorf("got %d of %d", len(page), size)
	}
	if page[0].Err == nil || page[0].Payload.Class() != "" || string(page[0].Summary().Args) != `["{"]` || page[0].Queue != "a" {
		t.Errorf("what is no job is shown as %s", page[0].Summary().Args)
	}
	if page, _, _ = q.Page(t.Context(), 3, 10); len(page) != 1 || page[0].JID != jid(1) {
		t.Errorf("the last page has %d", len(page))
	}
	for _, bad := range [][2]int{{-1, 1}, {0, 0}} {
		if _, _, err := q.Page(t.Context(), bad[0], bad[1]); err == nil {
			t.Errorf("page %v: no error", bad)
		}
	}
}

func TestDeleteTakesOneJobByItsBytes(t *testing.T) {
	i, rdb, _ := start(t)
	near := job(1, "a") + " " // another job by its bytes
	push(t, rdb, "a", job(1, "a"), near, job(1, "a"), job(2, "a"))
	q := i.Queue("a")
	for _, want := range []inspect.Outcome{inspect.Done, inspect.Done, inspect.Gone} {
		if got := harness.Must(q.Job(job(1, "a")).Delete(t.Context()))(t); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	harness.EqualList(t, "left", rdb.LRange(t.Context(), "queue:a", 0, -1).Val(), []string{job(2, "a"), near})
}

func TestClearTakesTheQueueOffTheList(t *testing.T) {
	i, rdb, _ := start(t)
	push(t, rdb, "a", job(1, "a"), job(2, "a"))
	push(t, rdb, "b", job(3, "b"))
	harness.Equal(t, "cleared", harness.Must(i.Queue("a").Clear(t.Context()))(t), 2)
	if got := snapshot(t, rdb); len(got) != 2 || fmt.Sprint(got["queues"]) != "[b]" {
		t.Errorf("left %v", got)
	}
	harness.Equal(t, "cleared of nothing", harness.Must(i.Queue("a").Clear(t.Context()))(t), 0)
}

// walks are both directions.
var walks = []func(*inspect.Queue, context.Context) iter.Seq2[*inspect.QueuedJob, error]{(*inspect.Queue).Each, (*inspect.Queue).OldestFirst}

func TestOldestAfter(t *testing.T) {
	i, rdb, _ := start(t)
	for n := range 200 {
		push(t, rdb, "a", job(n, "a"))
	}
	for _, skip := range []int{-1, 0, 1, 60, 199, 200, 1000} {
		var got []string
		for j, err := range i.Queue("a").OldestAfter(t.Context(), skip) {
			harness.OK(t, err)
			got = append(got, j.JID)
		}
		if want := max(0, 200-max(skip, 0)); len(got) != want || want > 0 && (got[0] != jid(max(skip, 0)) || got[want-1] != jid(199)) {
			t.Errorf("after %d: %d jobs", skip, len(got))
		}
	}
}

// A user who deletes what it is shown misses nothing, with any page and gap.
func TestEachWhileItsUserDeletes(t *testing.T) {
	i, rdb, _ := start(t)
	for _, walk := range walks {
		for _, every := range []int{1, 2, 3, 51, 1000} {
			var raws []string
			for n := range 500 {
				raws = append(raws, job(n, "a"))
			}
			push(t, rdb, "a", raws...)
			n := 0
			for j, err := range walk(i.Queue("a"), t.Context()) {
				harness.OK(t, err)
				if n++; n%every == 0 {
					harness.Must(j.Delete(t.Context()))(t)
				}
			}
			if left := rdb.LLen(t.Context(), "queue:a").Val(); n != 500 || int(left) != 500-500/every {
				t.Errorf("every %d: shown %d, left %d", every, n, left)
			}
			rdb.Del(t.Context(), "queue:a")
		}
	}
}

// Jobs of equal bytes are jobs of their own, by their places.
func TestEachOfEqualJobs(t *testing.T) {
	i, rdb, _ := start(t)
	for n := range 300 {
		push(t, rdb, "a", []string{"{}", job(n/2, "a")}[n%2])
	}
	want := rdb.LRange(t.Context(), "queue:a", 0, -1).Val()
	for _, walk := range walks {
		var got []string
		for j, err := range walk(i.Queue("a"), t.Context()) {
			harness.OK(t, err)
			got = append(got, j.Raw)
		}
		if !slices.Equal(got, want) {
			t.Errorf("shown %d of %d", len(got), len(want))
		}
		slices.Reverse(want)
	}
}

// Jobs that stay throughout come exactly once, in order, whatever others push,
// fetch, requeue and delete.
func TestEachOfALiveQueue(t *testing.T) {
	rdb, _ := redistest.New(t)
	i := inspect.New(rdb)
	rapid.Check(t, func(t *rapid.T) {
		ctx := t.Context()
		harness.OK(t, rdb.FlushDB(ctx).Err())
		next := 0
		fresh := func(n int) (values []any) {
			for range n {
				next++
				values = append(values, job(next, "a"))
			}
			return values
		}
		harness.OK(t, rdb.LPush(ctx, "queue:a", fresh(rapid.IntRange(1, 400).Draw(t, "size"))...).Err())
		staying := make(map[string]bool)
		for _, raw := range rdb.LRange(ctx, "queue:a", 0, -1).Val() {
			staying[raw] = true
		}
		removed := func(raw string, err error) {
			if err == nil {
				delete(staying, raw)
			} else if !errors.Is(err, redis.Nil) {
				t.Fatal(err)
			}
		}
		shown := make(map[string]int)
		var order []string
		for j, err := range rapid.SampledFrom(walks).Draw(t, "walk")(i.Queue("a"), ctx) {
			harness.OK(t, err)
			shown[j.Raw]++
			order = append(order, j.Raw)
			if rapid.IntRange(0, 19).Draw(t, "busy") != 0 {
				continue
			}
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				harness.OK(t, rdb.LPush(ctx, "queue:a", fresh(rapid.SampledFrom([]int{1, 3, 60, 300}).Draw(t, "pushed"))...).Err())
			case 1:
				for range rapid.IntRange(1, 30).Draw(t, "fetched") {
					removed(rdb.RPop(ctx, "queue:a").Result())
				}
			case 2:
				harness.OK(t, rdb.RPush(ctx, "queue:a", fresh(1)...).Err())
			case 3: // somebody else deletes one that was shown
				raw := rapid.SampledFrom(order).Draw(t, "shown")
				removed(raw, rdb.LRem(ctx, "queue:a", 1, raw).Err())
			case 4:
				removed(j.Raw, second(j.Delete(ctx)))
			}
			if next > 3000 {
				break
			}
		}
		if next > 3000 {
			return
		}
		for raw := range staying {
			if shown[raw] != 1 {
				t.Fatalf("%s was shown %d times", raw, shown[raw])
			}
		}
	})
}

// When everything that was shown is gone, the walk goes on if the rest is
// there, and ends if that was fetched as well.
func TestEachAfterWhatItShowedIsGone(t *testing.T) {
	for n := range 4 {
		fetched, up := n%2 == 1, n/2
		i, rdb, _ := start(t)
		var raws []string
		for n := range 300 {
			raws = append(raws, job(n, "a"))
		}
		push(t, rdb, "a", raws...)
		shown := make(map[string]int)
		n := 0
		for j, err := range walks[up](i.Queue("a"), t.Context()) {
			harness.OK(t, err)
			shown[j.JID]++
			if n++; n != 150 {
				continue
			}
			if fetched { // and new ones have come
				harness.OK(t, rdb.Del(t.Context(), "queue:a").Err())
				push(t, rdb, "a", job(1000, "a"))
			} else {
				harness.OK(t, rdb.LTrim(t.Context(), "queue:a", []int64{150, 0}[up], []int64{-1, 149}[up]).Err())
			}
		}
		if want := map[bool]int{true: 150, false: 300}[fetched]; len(shown) != want || n != want {
			t.Errorf("fetched %v: shown %d of %d", fetched, len(shown), n)
		}
	}
}
