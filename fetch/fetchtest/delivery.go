package fetchtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Delivery checks what every fetcher owes: each job once, in order, with its
// bytes, and every move to its place. Its tests run in parallel.
func Delivery(t *testing.T, h Harness) {
	for name, test := range map[string]func(*rig){
		"order":                     order,
		"strict":                    strict,
		"weighted":                  weighted,
		"random":                    random,
		"bytes":                     rawBytes,
		"take none":                 takeNone,
		"bytes of a take":           boundedBytes,
		"moves":                     moves,
		"requeue order":             requeueOrder,
		"to the back":               toTheBack,
		"many moves":                manyMoves,
		"wrong type queue":          wrongQueue,
		"wrong type destination":    wrongDestination,
		"concurrent":                concurrent,
		"wait wakes":                waitWakes,
		"wait ends with context":    waitCancelled,
		"wait ends with time":       waitTimesOut,
		"wait beside a wrong type":  waitWrongType,
		"paused queue":              pausedQueue,
		"paused while waiting":      pausedWhileWaiting,
		"paused is no work":         pausedIsNoWork,
		"close gives back":          closeGivesBack,
		"nothing is left behind":    noGoroutines,
		"factory checks its queues": factoryChecks,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if h.Server == nil && (strings.HasPrefix(name, "wait") || strings.HasPrefix(name, "paused")) {
				// What wakes a fetcher may not know database numbers.
				server := redistest.Start(t)
				rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
				t.Cleanup(func() { _ = rdb.Close() })
				test(setUpAt(t, h, rdb, server.URL(0)))
				return
			}
			test(setUp(t, h))
		})
	}
}

// order: one queue comes in the order of its pushes, whatever the batches.
func order(r *rig) {
	want := r.push("a", 500)
	f := r.fetcher(fetch.Strict{"a"})
	var got []fetch.Unit
	for n := 1; ; n = n%37 + 5 {
		units := r.take(f, n)
		if len(units) == 0 {
			break
		}
		got = append(got, units...)
	}
	equal(r.t, "units", payloads(got), want)
	for _, u := range got {
		if u.Queue != "a" {
			r.t.Fatalf("unit %q says queue %q, expected a", u.Payload, u.Queue)
		}
	}
	r.take(f, 0, got...)
	equal(r.t, "queue", r.queued("a"), nil)
	r.close(f)
}

// strict: no unit of a later queue while an earlier one has any.
func strict(r *rig) {
	b, c := r.push("b", 40), r.push("c", 5)
	f := r.fetcher(fetch.Strict{"a", "b", "c"})
	got := r.take(f, 15)
	a := r.push("a", 10)
	got = append(got, r.takeAll(f, 7)...)
	want := append(append(append(append([]string(nil), b[:15]...), a...), b[15:]...), c...)
	equal(r.t, "units", payloads(got), want)
	r.take(f, 0, got...)
	r.close(f)
}

// weighted: shares are the weights, however large the batches.
func weighted(r *rig) {
	shares(r, fetch.Weighted{"a": 5, "b": 3, "c": 1}, map[string]float64{"a": 5. / 9, "b": 3. / 9, "c": 1. / 9})
}

// random: equal shares.
func random(r *rig) {
	third := 1. / 3
	shares(r, fetch.Weighted{"a": 1, "b": 1, "c": 1}, map[string]float64{"a": third, "b": third, "c": third})
}

// shares takes from full queues and tests the counts by chi-square: with two
// degrees of freedom a right fetcher exceeds 23 once in 100,000 runs.
func shares(r *rig, queues fetch.Queues, expected map[string]float64) {
	const total = 3000
	for name := range expected {
		r.push(name, 3*total)
	}
	f := r.fetcher(queues)
	for _, batch := range []int{1, 8, 64} {
		counts := make(map[string]float64)
		taken := 0
		for taken < total {
			units := r.take(f, batch)
			if len(units) != batch {
				r.t.Fatalf("batch %d: %d units of full queues", batch, len(units))
			}
			for _, u := range units {
				counts[u.Queue]++
			}
			taken += batch
			r.take(f, 0, units...)
		}
		chi2 := 0.0
		for name, share := range expected {
			want := share * float64(taken)
			chi2 += (counts[name] - want) * (counts[name] - want) / want
		}
		if chi2 > 23 {
			r.t.Errorf("batch %d: shares %v, expected %v: chi-square %.1f", batch, counts, expected, chi2)
		}
	}
	r.close(f)
}

// rawBytes: payloads are bytes, the empty one included.
func rawBytes(r *rig) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	want := []string{"", string(all), "{}", "\x00", "\r\n$-1\r\n", "\xff\xfe not UTF-8", strings.Repeat("x", 3<<20), "", "last"}
	for _, p := range want {
		r.must("push", r.Push(r.ctx, r.rdb, "a", []byte(p)))
	}
	f := r.fetcher(fetch.Strict{"a"})
	got := r.takeAll(f, 4)
	for i := range min(len(got), len(want)) {
		if string(got[i].Payload) != want[i] {
			r.t.Errorf("unit %d: got %.40q (%d bytes), expected %.40q (%d bytes)", i, got[i].Payload, len(got[i].Payload), want[i], len(want[i]))
		}
	}
	if len(got) != len(want) {
		r.t.Errorf("%d units, expected %d", len(got), len(want))
	}
	var back []fetch.Move
	for _, u := range got {
		back = append(back, fetch.Move{Unit: u, To: fetch.ToQueue})
	}
	r.settle(f, back...)
	if again := r.queued("a"); strings.Join(again, "|") != strings.Join(want, "|") {
		r.t.Errorf("the queue differs after the units were given back: %.200q", again)
	}
	r.close(f)
}

// takeNone: a take of none takes none.
func takeNone(r *rig) {
	want := r.push("a", 3)
	f := r.fetcher(fetch.Strict{"a"})
	for _, n := range []int{0, -1} {
		units, err := f.Take(r.ctx, n, nil)
		r.must("take", err)
		if len(units) > 0 {
			r.t.Errorf("take %d: %d units", n, len(units))
		}
	}
	equal(r.t, "queue", r.queued("a"), want)
	r.close(f)
}

// boundedBytes: no Take brings more bytes than it may, whatever it was asked for, but for the
// last unit; and all comes, in its order.
func boundedBytes(r *rig) {
	const bound, large = 10_000, 4_000
	var want []string
	fill := func(queue string, n, size int) {
		for range n {
			p := fmt.Sprint(len(want), " ")
			p += strings.Repeat("x", size-len(p))
			want = append(want, p)
			r.must("push", r.Push(r.ctx, r.rdb, queue, []byte(p)))
		}
	}
	fill("a", 99, 10)
	fill("a", 40, large)
	fill("a", 300, 100)
	fill("a", 1, 10*bound)
	fill("a", 7, 10)
	fill("b", 40, large)
	env := r.env("default", fetch.Strict{"a", "b"})
	env.Bytes = bound
	f := r.start(env)
	var got, acks []fetch.Unit
	for len(got) < len(want) {
		units := r.take(f, 500, acks...)
		if len(units) == 0 {
			break
		}
		perQueue := make(map[string]int)
		for _, u := range units {
			if perQueue[u.Queue] >= bound {
				r.t.Errorf("unit %.5q came behind %d bytes, expected at most %d", u.Payload, perQueue[u.Queue], bound)
			}
			perQueue[u.Queue] += len(u.Payload)
		}
		got, acks = append(got, units...), units
	}
	equal(r.t, "units", payloads(got), want)
	r.take(f, 0, acks...)
	r.close(f)
}

// factoryChecks: bad queues are an error of the factory that says so, and bad bytes.
func factoryChecks(r *rig) {
	for _, queues := range []fetch.Queues{nil, fetch.Strict{}, fetch.Strict{"a", ""}, fetch.Weighted{"\xff": 1}} {
		if _, err := r.New(r.env("default", queues)); err == nil || !strings.Contains(err.Error(), "queue") {
			r.t.Errorf("queues %#v: error %v, expected one about queues", queues, err)
		}
	}
	env := r.env("default", fetch.Strict{"a"})
	env.Bytes = -1
	if _, err := r.New(env); err == nil || !strings.Contains(err.Error(), "-1") {
		r.t.Errorf("Bytes -1: error %v, expected one that names it", err)
	}
}

// concurrent: many callers at once still get each job once.
func concurrent(r *rig) {
	want := make(map[string]bool)
	for _, queue := range []string{"a", "b", "c"} {
		for _, p := range r.push(queue, 400) {
			want[p] = true
		}
	}
	f := r.fetcher(fetch.Weighted{"a": 3, "b": 2, "c": 1})
	type outcome struct {
		units []fetch.Unit
		err   error
	}
	outcomes := make(chan outcome)
	const callers = 12
	for range callers {
		go func() {
			var o outcome
			var acks []fetch.Unit
			for o.err == nil {
				var units []fetch.Unit
				if units, o.err = f.Take(r.ctx, 9, acks); len(units) == 0 {
					break
				}
				o.units, acks = append(o.units, units...), units[:len(units)/2]
				var moves []fetch.Move
				for _, u := range units[len(units)/2:] {
					moves = append(moves, fetch.Move{Unit: u, To: fetch.ToDead, Score: 1})
				}
				if o.err == nil {
					_, o.err = f.Settle(r.ctx, moves)
				}
				if o.err == nil {
					o.err = f.Renew(r.ctx)
				}
			}
			outcomes <- o
		}()
	}
	seen := make(map[string]int)
	for range callers {
		o := <-outcomes
		r.must("a caller", o.err)
		for _, u := range o.units {
			seen[string(u.Payload)]++
		}
	}
	for p := range want {
		if seen[p] != 1 {
			r.t.Errorf("job %q was taken %d times", p, seen[p])
		}
	}
	if len(seen) != len(want) {
		r.t.Errorf("%d jobs were taken, expected %d", len(seen), len(want))
	}
	r.close(f)
}

// wrongQueue: a queue key of the wrong type is passed over.
func wrongQueue(r *rig) {
	want := r.push("b", 20)
	r.spoil("a")
	for i, queues := range []fetch.Queues{fetch.Strict{"a", "b"}, fetch.Weighted{"a": 9, "b": 1}} {
		f := r.start(r.env(fmt.Sprint("capsule", i), queues))
		got := r.takeAll(f, 6)
		equal(r.t, "units of the other queue", payloads(got), want)
		var back []fetch.Move
		for _, u := range got {
			back = append(back, fetch.Move{Unit: u, To: fetch.ToQueue})
		}
		r.settle(f, back...)
		r.close(f)
	}
}
