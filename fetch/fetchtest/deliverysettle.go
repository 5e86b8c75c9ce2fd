package fetchtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/fetch"
)

// moves: each place gets the right bytes at the right score, and the dead set
// is trimmed after the insertion.
func moves(r *rig) {
	r.push("a", 8)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 8)
	if len(u) != 8 {
		r.t.Fatalf("took %d units of 8", len(u))
	}
	r.settle(f,
		fetch.Move{Unit: u[0], To: fetch.ToRetry, Score: 1795225036.2125871, Payload: []byte("changed")},
		fetch.Move{Unit: u[1], To: fetch.ToRetry, Score: 1795225033},
		fetch.Move{Unit: u[2], To: fetch.ToSchedule, Score: 0.0000001},
		fetch.Move{Unit: u[3], To: fetch.ToDead, Score: 3, Payload: []byte{}},
		fetch.Move{Unit: u[4], To: fetch.ToDead, Score: 4},
		fetch.Move{Unit: u[5], To: fetch.ToDead, Score: 5},
		fetch.Move{Unit: u[6], To: fetch.ToDead, Score: 6},
	)
	r.members(fetch.ToRetry, "a 1@1795225033", "changed@1795225036.2125871")
	r.members(fetch.ToSchedule, "a 2@0.0000001")
	r.members(fetch.ToDead, "@3", "a 4@4", "a 5@5", "a 6@6")
	// By age: 3 and 4 go. By size: Sidekiq keeps one less than the limit.
	r.settle(f, fetch.Move{Unit: u[7], To: fetch.ToDead, Score: 7, Trim: fetch.Trim{Before: 4, Max: 3}})
	r.members(fetch.ToDead, "a 6@6", "a 7@7")
	equal(r.t, "queue", r.queued("a"), nil)
	if results, err := f.Settle(r.ctx, nil); err != nil || len(results) != 0 {
		r.t.Errorf("settle of nothing: %v, %v", results, err)
	}
	r.close(f)
}

// members compares a set with payload@score, by score.
func (r *rig) members(to fetch.Destination, want ...string) {
	r.t.Helper()
	var got []string
	for _, z := range r.placed(to) {
		text := strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.7f", z.Score), "0"), ".")
		got = append(got, fmt.Sprintf("%v@%s", z.Member, text))
	}
	equal(r.t, "moved "+to.String(), got, want)
}

// requeueOrder: units given back together are popped next, in their old order.
func requeueOrder(r *rig) {
	a, b := r.push("a", 30), r.push("b", 10)
	f := r.fetcher(fetch.Strict{"a", "b"})
	units := r.take(f, 35)
	r.take(f, 0, units[3])
	var back []fetch.Move
	for i, u := range units {
		switch i {
		case 3:
		case 5:
			back = append(back, fetch.Move{Unit: u, To: fetch.ToQueue, Payload: []byte("changed")})
		default:
			back = append(back, fetch.Move{Unit: u, To: fetch.ToQueue})
		}
	}
	r.settle(f, back...)
	a[5] = "changed"
	equal(r.t, "queue a", r.queued("a"), slices.Delete(a, 3, 4))
	equal(r.t, "queue b", r.queued("b"), b)
	r.close(f)
}

// toTheBack: units are popped after all that waited, the oldest of them first,
// with their new bytes; their queue is listed again, should it have been
// cleared. Those for the other end of the queue do not mind.
func toTheBack(r *rig) {
	a := r.push("a", 1500)
	f := r.fetcher(fetch.Strict{"a", "b"})
	units := r.takeAll(f, 900)
	waiting := r.push("a", 3)
	var moves []fetch.Move
	want := []string{a[1]}
	want = append(want, waiting...)
	for i, u := range units {
		switch i {
		case 1:
			moves = append(moves, fetch.Move{Unit: u, To: fetch.ToQueue})
		case 700:
			moves = append(moves, fetch.Move{Unit: u, To: fetch.ToBack})
			want = append(want, a[i])
		default:
			moves = append(moves, fetch.Move{Unit: u, To: fetch.ToBack, Payload: []byte(a[i] + " once more")})
			want = append(want, a[i]+" once more")
		}
	}
	r.settle(f, moves...)
	equal(r.t, "queue", r.queued("a"), want)
	listed, err := r.Listed(r.ctx, r.rdb)
	r.must("list the queues", err)
	equal(r.t, "listed queues", listed, []string{"a"})
	again := r.takeAll(f, 900)
	equal(r.t, "popped", payloads(again), want)
	r.take(f, 0, again...)
	r.close(f)
}

// manyMoves: a bulk is not limited by what one command can carry.
func manyMoves(r *rig) {
	want := r.push("a", 5000)
	f := r.fetcher(fetch.Strict{"a"})
	var back []fetch.Move
	for _, u := range r.takeAll(f, 900) {
		back = append(back, fetch.Move{Unit: u, To: fetch.ToQueue})
	}
	r.settle(f, back...)
	equal(r.t, "queue", r.queued("a"), want)
	r.close(f)
}

// wrongDestination: a destination that refuses is an error, nothing is lost or
// doubled, and when it is mended the same moves succeed.
func wrongDestination(r *rig) {
	want := r.push("a", 2)
	f := r.fetcher(fetch.Strict{"a"})
	units := r.take(f, 2)
	restore := r.spoil("a")
	ms := []fetch.Move{{Unit: units[0], To: fetch.ToDead, Score: 1}, {Unit: units[1], To: fetch.ToQueue}}
	for range 3 {
		if _, err := f.Settle(r.ctx, ms); err == nil {
			r.t.Error("settle into a key of the wrong type: no error")
		}
	}
	restore()
	r.settle(f, ms...)
	r.members(fetch.ToDead, want[0]+"@1")
	equal(r.t, "queue", r.queued("a"), want[1:])
	r.close(f)
}
