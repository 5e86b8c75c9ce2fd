package sched

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/moving"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// entry is a member of the model's set.
type entry struct {
	member string
	age    int // s since it was due; below 0 it is not yet
}

// modelDue is what due.lua is to find.
func modelDue(set []entry, a ask, lowest int) (out found) {
	set = slices.DeleteFunc(slices.Clone(set), func(e entry) bool { return e.age > lowest })
	slices.SortFunc(set, func(x, y entry) int { return cmp.Or(y.age-x.age, strings.Compare(x.member, y.member)) })
	due := slices.IndexFunc(set, func(e entry) bool { return e.age < 0 })
	if due < 0 {
		due = len(set)
	}
	if a.skip < due {
		out.size = len(set[a.skip].member)
	}
	can := set[min(a.skip, due):due]
	if a.newest {
		can = slices.Clone(set[:due])
		slices.Reverse(can)
	}
	if out.size == 0 {
		can = nil
	}
	bytes := 0
	for _, e := range can {
		if len(out.members) == a.count || len(out.members) > 0 && bytes+len(e.member) > a.bytes {
			break
		}
		bytes += len(e.member)
		out.members = append(out.members, e.member)
	}
	out.more = len(out.members) < len(can)
	return out
}

// Each of the two scripts does what a model of it does, on both servers: due.lua in
// what it returns, move.lua in where each member is afterwards.
func TestTheScriptsDoWhatTheModelSays(t *testing.T) {
	server, _ := redistest.New(t)
	mini := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), MaxRetries: -1})
	defer func() { _ = mini.Close() }()
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Now().Unix()
		set := rapid.SliceOfNDistinct(rapid.Custom(func(rt *rapid.T) entry {
			text := fmt.Sprint(rapid.IntRange(0, 50).Draw(rt, "name"), strings.Repeat("x", rapid.IntRange(0, 40).Draw(rt, "length")))
			return entry{text, rapid.SampledFrom([]int{-1000, 10, 20, 30, 500}).Draw(rt, "age")}
		}), 0, 40, func(e entry) string { return e.member }).Draw(rt, "set")
		lowest := rapid.SampledFrom([]int{1000, 400, 20}).Draw(rt, "lowest age")
		a := ask{
			sets: []string{keys.Retry}, from: []string{fmt.Sprint(now - int64(lowest))}, skip: rapid.IntRange(0, 5).Draw(rt, "skip"),
			newest: rapid.Bool().Draw(rt, "newest"), count: rapid.IntRange(1, 45).Draw(rt, "count"),
			bytes: rapid.SampledFrom([]int{1, 60, 200, 5000}).Draw(rt, "bytes"), timeout: time.Minute,
		}
		want := modelDue(set, a, lowest)
		gone := map[string]bool{} // taken by others between the two steps
		for _, m := range want.members {
			gone[m] = rapid.IntRange(0, 3).Draw(rt, "gone") == 0
		}
		for name, rdb := range map[string]*redis.Client{"redis": server, "miniredis": mini} {
			rdb.FlushDB(ctx)
			for _, e := range set {
				rdb.ZAdd(ctx, "retry", redis.Z{Score: float64(now - int64(e.age)), Member: e.member})
			}
			s := New(Config{Redis: rdb, Logger: zerolog.Nop()})
			a.term = s.terms[0]
			answer, err := s.due(ctx, a)
			if err != nil {
				rt.Fatal(name, err)
			}
			got := answer.sets[0]
			if !slices.Equal(got.members, want.members) || got.more != want.more || got.size != want.size || got.err != nil {
				rt.Fatalf("%s: due.lua of %v returned\n%+v, want\n%+v", name, a, got, want)
			}

			b := batch{s: s, set: keys.Retry, cur: s.cursors[keys.Retry], now: time.Now(), groups: []*moving.Group{{}, {}}}
			b.groups = append(b.groups, &moving.Group{Key: "queue:q", Queue: "q"})
			for i, m := range want.members {
				switch {
				case gone[m]:
					rdb.ZRem(ctx, "retry", m)
					fallthrough
				case i%3 > 0:
					b.put(lists, m, "new "+m)
				default:
					b.put(dropped, m, "")
				}
			}
			if err := b.apply(ctx); err != nil {
				rt.Fatal(name, err)
			}
			out := b.out
			moved, stopped := rdb.LRange(ctx, "queue:q", 0, -1).Val(), 0
			slices.Reverse(moved)
			var wantMoved []string
			for _, m := range b.groups[lists].Members {
				if m := *m.(*string); !gone[m] {
					wantMoved = append(wantMoved, "new "+m)
				}
			}
			for _, m := range b.groups[dropped].Members {
				if !gone[*m.(*string)] {
					stopped++
				}
			}
			left := rdb.ZCard(ctx, "retry").Val()
			if !slices.Equal(moved, wantMoved) || out.Moved != len(wantMoved) || out.Dropped != stopped || left != int64(len(set)-len(want.members)) {
				rt.Fatalf("%s: move.lua said %+v and moved %v, want %v; %d are left", name, out, moved, wantMoved, left)
			}
		}
	})
}
