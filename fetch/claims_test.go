package fetch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What one call takes of a queue is named once for a few dozen jobs, and no field of the
// index is left when they have ended.
func TestJobsOfOneTakeShareClaims(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	p := f.cur.indexes[0]
	fillQueue(t, rdb, "a", 200)
	units := mustTake(t, f, 300)
	harness.EqualList(t, "took", payloads(units), upTo(200))
	if n := rdb.HLen(t.Context(), p.key).Val(); n > 2+8 {
		t.Errorf("the index has %d fields for 200 jobs", n)
	}
	for _, field := range rdb.HKeys(t.Context(), p.key).Val() {
		if n := rdb.LLen(t.Context(), p.slot.List(p.in.id, field)).Val(); n > keys.ClaimSize {
			t.Errorf("claim %s has %d jobs", field, n)
		}
	}
	harness.EqualList(t, "in progress", inProgress(t, rdb, p), upTo(200))
	mustTake(t, f, 0, units...)
	noClaims(t, rdb)
}

// Acks come in any order and number, of several claims at once: what is not acked stays,
// and no other.
func TestAcksInAnyOrder(t *testing.T) {
	for name, order := range map[string]func(n int) []int{
		"oldest first": func(n int) []int { return sequence(0, n, 1) },
		"newest first": func(n int) []int { return sequence(n-1, -1, -1) },
		"even, then odd": func(n int) []int {
			return append(sequence(0, n, 2), sequence(1, n, 2)...)
		},
		"from the middle": func(n int) []int { return append(sequence(n/2, n, 1), sequence(0, n/2, 1)...) },
	} {
		for _, size := range []int{1, 7, 50, 150} {
			t.Run(fmt.Sprint(name, " by ", size), func(t *testing.T) {
				rdb, _ := redistest.New(t)
				f := mustOpen(t, testEnv(rdb, Strict{"a", "b"}))
				fillQueue(t, rdb, "a", 100)
				fillQueue(t, rdb, "b", 50)
				units := mustTake(t, f, 200)
				left := make(map[int]bool)
				for i := range units {
					left[i] = true
				}
				for some := range slices.Chunk(order(len(units)), size) {
					var acks []Unit
					for _, i := range some {
						acks = append(acks, units[i])
						delete(left, i)
					}
					mustTake(t, f, 0, acks...)
					mustTake(t, f, 0, acks[:1]...) // once more: nothing happens
					var want []string
					for i := range left {
						want = append(want, string(units[i].Payload))
					}
					got := inProgress(t, rdb, f.cur.indexes[0])
					slices.Sort(got)
					if slices.Sort(want); !slices.Equal(got, want) {
						t.Fatalf("%d in progress, want %d", len(got), len(want))
					}
				}
				noClaims(t, rdb)
			})
		}
	}
}

func sequence(from, to, step int) (out []int) {
	for i := from; i != to && (step > 0) == (i < to); i += step {
		out = append(out, i)
	}
	return out
}

// Claims hold any bytes, of any size, the same ones several times, too.
func TestClaimsOfAnyBytes(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := mustOpen(t, testEnv(rdb, Strict{"a"}))
	want := []string{"zero \x00 byte", "", "12", "x\xff", strings.Repeat("large", 10_000), "-0"}
	for range 8 {
		for _, job := range want {
			rdb.LPush(t.Context(), "queue:a", job)
		}
	}
	units := mustTake(t, f, 100)
	mustTake(t, f, 0, units[0], units[9])
	settleAll(t, f, Move{Unit: units[1], To: ToBack, Payload: []byte{}}, Move{Unit: units[7], To: ToDead, Score: 1}, Move{Unit: units[2], To: ToRetry, Score: 1, Payload: []byte("\x00\xff")})
	if len(units) != 48 {
		t.Fatalf("took %d", len(units))
	}
	var left []string
	for i, u := range units {
		if string(u.Payload) != want[i%6] {
			t.Errorf("unit %d is %.20q", i, u.Payload)
		}
		if !slices.Contains([]int{0, 1, 2, 7, 9}, i) {
			left = append(left, want[i%6])
		}
	}
	got := inProgress(t, rdb, f.cur.indexes[0])
	slices.Sort(got)
	if slices.Sort(left); !slices.Equal(got, left) {
		t.Errorf("%d in progress, want %d", len(got), len(left))
	}
	harness.EqualList(t, "queue", queued(t, rdb, "a"), []string{""})
	mustTake(t, f, 0, units...)
	noClaims(t, rdb)
}

// Jobs of a claim go their own ways: acked alone, retried, put back; all of a claim fail
// at once, again after a lost reply.
func TestJobsLeaveTheirClaim(t *testing.T) {
	for _, lost := range []bool{false, true} {
		rdb, _ := redistest.New(t)
		l := &lostReply{}
		f := mustOpen(t, testEnv(hooked(t, rdb, l), Strict{"a"}))
		known(t, rdb)
		fillQueue(t, rdb, "a", 300)
		units := mustTake(t, f, 300)
		moves := make([]Move, 0, 298)
		var failed []string
		for i, u := range units[:298] {
			m := Move{Unit: u, To: ToRetry, Score: float64(i + 1), Payload: fmt.Appendf(nil, "failed %d", i)}
			if i%3 == 0 {
				m.To, m.Payload = ToQueue, nil
			} else {
				failed = append(failed, string(m.Payload))
			}
			moves = append(moves, m)
		}
		if lost {
			l.arm(hashOf("settle"), true)
			if _, err := f.Settle(t.Context(), moves); err == nil {
				t.Error("no error")
			}
		}
		settleAll(t, f, moves...)
		settleAll(t, f, moves...)
		if got := rdb.ZRange(t.Context(), keys.Retry, 0, -1).Val(); !slices.Equal(got, failed) {
			t.Errorf("lost %v: retry holds %d, want %d", lost, len(got), len(failed))
		}
		var back []string
		for i := 0; i < 298; i += 3 {
			back = append(back, fmt.Sprint(i))
		}
		if got := queued(t, rdb, "a"); !slices.Equal(got, back) {
			t.Errorf("lost %v: the queue, next first: %q", lost, got)
		}
		mustTake(t, f, 0, units[298:]...)
		noClaims(t, rdb)
	}
}

// A Take ends with the job that reaches its bytes, over several pages of queues and indexes,
// also for a user who may neither SORT nor ask for the size of a key.
func TestATakeEndsWithTheJobThatReachesItsBytes(t *testing.T) {
	const bound, large = 40_000, 5_000
	for name, queues := range map[string]int{"one queue": 1, "two": 2, "more than a call has": 2*queuesCall + 5} {
		for _, cluster := range []bool{false, true} {
			if cluster && queues > 2 {
				continue
			}
			t.Run(fmt.Sprint(name, ", cluster ", cluster), func(t *testing.T) {
				var rdb redis.UniversalClient
				if cluster {
					rdb, _ = redistest.NewCluster(t)
				} else {
					admin, _ := ownServer(t)
					harness.OK(t, admin.Do(t.Context(), "acl", "setuser", "narrow", "reset", "on", ">pw", "~*", "&*", "+@all", "-sort", "-memory").Err())
					narrow := redis.NewClient(&redis.Options{Addr: admin.Options().Addr, Username: "narrow", Password: "pw", MaxRetries: -1})
					t.Cleanup(func() { _ = narrow.Close() })
					rdb = narrow
				}
				var names, want []string
				for i := range queues {
					names = append(names, fmt.Sprint("q", i))
				}
				add := func(queue string, n, size int) {
					for range n {
						p := fmt.Sprint(len(want), " ")
						p += strings.Repeat("x", max(0, size-len(p)))
						want = append(want, p)
						harness.OK(t, rdb.LPush(t.Context(), keys.Queue(queue), p).Err())
					}
				}
				add(names[0], 70, 10)
				add(names[0], 40, large)
				add(names[0], 2, 3*bound)
				add(names[0], 300, 100)
				add(names[queues-1], 30, 2*large)
				add(names[queues-1], 3, 10)
				env := testEnv(rdb, Strict(names))
				env.Bytes = bound
				f := mustOpen(t, env)
				var got []string
				var acks []Unit
				for len(got) < len(want) {
					units := mustTake(t, f, 1000, acks...)
					if len(units) == 0 {
						break
					}
					size := 0
					for _, u := range units {
						if size >= bound {
							t.Fatalf("unit %.5q came behind %d bytes, expected at most %d", u.Payload, size, bound)
						}
						size += len(u.Payload)
					}
					got, acks = append(got, payloads(units)...), units
				}
				if !slices.Equal(got, want) {
					t.Errorf("took %d units, expected %d in their order", len(got), len(want))
				}
				mustTake(t, f, 0, acks...)
			})
		}
	}
}
