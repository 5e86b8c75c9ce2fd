package fetchtest

import (
	"strings"
	"sync"
	"time"

	"github.com/troupehq/troupe/fetch"
)

// rescueKeepsOrder: units of one dead fetcher run again in their old order,
// before all that was waiting.
func rescueKeepsOrder(r *rig) {
	a, b := r.push("a", 50), r.push("b", 50)
	f := r.dying("default", fetch.Strict{"a", "b"})
	var units []fetch.Unit
	for n := range 12 {
		units = append(units, r.take(f, n)...)
	}
	r.take(f, 0, units[0], units[7], units[51])
	r.rescueUntil("all is back", func() bool { return len(r.queued("a")) == 48 && len(r.queued("b")) == 49 })
	r.rescued("queue a", r.queued("a"), append(append([]string(nil), a[1:7]...), a[8:]...))
	r.rescued("queue b", r.queued("b"), append([]string{b[0]}, b[2:]...))
}

// rescueMany: more units than one command or script may carry at once.
func rescueMany(r *rig) {
	want := r.push("a", 5200)
	r.dyingWith("default", "a", 5000)
	r.rescueUntil("all is back", func() bool { return len(r.queued("a")) == len(want) })
	r.rescued("queue", r.queued("a"), want)
}

// rescueKeepsBytes: payloads are bytes, also on the way back.
func rescueKeepsBytes(r *rig) {
	want := []string{"", "\x00\xff", strings.Repeat("y", 1<<20), "", "{\"a\":1}"}
	for _, p := range want {
		r.must("push", r.Push(r.ctx, r.rdb, "a", []byte(p)))
	}
	f := r.dying("default", fetch.Strict{"a"})
	r.takeAll(f, 2)
	r.rescueUntil("all is back", func() bool { return len(r.queued("a")) == len(want) })
	r.rescued("queue", r.queued("a"), want)
}

// rescueWrongType: a queue that cannot take its units back holds up neither
// other queues nor other fetchers, and its units are back when it is mended.
func rescueWrongType(r *rig) {
	a, b, c := r.push("a", 3), r.push("b", 3), r.push("c", 3)
	first := r.dying("first", fetch.Strict{"a", "b"})
	r.takeAll(first, 10)
	second := r.dying("second", fetch.Strict{"c"})
	r.takeAll(second, 10)
	restore := r.spoil("a")
	r.until("the others are back", func() bool {
		_ = r.Rescue(r.ctx, r.rdb, shortLease) // says what is wrong with a
		return len(r.queued("b")) == 3 && len(r.queued("c")) == 3
	})
	restore()
	r.rescueUntil("a is back", func() bool { return len(r.queued("a")) == 3 })
	r.rescued("queue a", r.queued("a"), a)
	r.rescued("queue b", r.queued("b"), b)
	r.rescued("queue c", r.queued("c"), c)
}

// rescueSparesLiving: a fetcher that renews, or just takes, is never rescued.
// Its lease is longer than a loaded machine may hold up a few calls.
func rescueSparesLiving(r *rig) {
	const lease = 4 * time.Second
	want := r.push("a", 10)
	start := func(capsule string) fetch.Fetcher {
		env := r.env(capsule, fetch.Strict{"a"})
		env.Lease = lease
		return r.start(env)
	}
	renews, takes := start("renews"), start("takes")
	units, more := r.take(renews, 3), r.take(takes, 3)
	for begun := time.Now(); time.Since(begun) < lease*3/2; time.Sleep(lease / 20) {
		r.must("renew", renews.Renew(r.ctx))
		r.take(takes, 0, more[0])
		r.must("rescue", r.Rescue(r.ctx, r.rdb, lease))
	}
	equal(r.t, "queue", r.queued("a"), want[6:])
	r.take(renews, 0, units...)
	r.take(takes, 0, more...)
	r.close(renews)
	r.close(takes)
}

// twoRescuers: several at once put every unit back once.
func twoRescuers(r *rig) {
	want := make(map[string][]string)
	for _, queue := range []string{"a", "b", "c", "d"} {
		want[queue] = r.push(queue, 1200)
		r.dyingWith("capsule "+queue, queue, 1200)
	}
	stop := make(chan struct{})
	var rescuers sync.WaitGroup
	errs := make(chan error, 4)
	for range cap(errs) {
		rescuers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := r.Rescue(r.ctx, r.rdb, shortLease); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	r.until("all is back", func() bool {
		for queue := range want {
			if len(r.queued(queue)) < 1200 {
				return false
			}
		}
		return true
	})
	close(stop)
	rescuers.Wait()
	select {
	case err := <-errs:
		r.t.Errorf("a rescuer: %v", err)
	default:
	}
	for queue, list := range want {
		r.rescued("queue "+queue, r.queued(queue), list)
	}
}
