package fetchtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// refusedHeld: what its queue refuses stays held, behind the others.
func refusedHeld(r *rig) {
	if r.TwoSteps {
		return // each queue has limits of its own
	}
	r.limit("one", "1")
	r.push("b", 1)
	r.push("a", 2)
	f := r.fetcher(fetch.Strict{"b", "a"})
	u := r.take(f, 3)
	first, in := r.asks(f, u[2:], "one") // a 1
	equal(r.t, "let in", in, []string{"a 1"})
	_, _ = r.asks(f, u[:2], "one")
	equal(r.t, "held", r.held("one"), []string{"b 0", "a 0"})
	repair := r.spoil("b")
	r.settle(f, r.leaving(first[0]))
	equal(r.t, "slots", r.slots("one"), []string{"a 0"})
	equal(r.t, "held", r.held("one"), []string{"b 0"})
	repair()
	next, in := r.asks(f, r.take(f, 1), "one")
	equal(r.t, "let in", in, []string{"a 0"})
	r.settle(f, r.leaving(next[0]))
	next, in = r.asks(f, r.take(f, 1), "one")
	equal(r.t, "let in", in, []string{"b 0"})
	r.settle(f, r.leaving(next[0]))
	r.close(f)
}

// noLimit: a limit that Redis does not know, and one of 0, let nobody in.
func noLimit(r *rig) {
	r.limit("closed", "0")
	r.push("a", 2)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 2)
	r.asks(f, u[:1], "closed")
	r.asks(f, u[1:], "unknown:7")
	equal(r.t, "held", append(r.held("closed"), r.held("unknown:7")...), []string{"a 0", "a 1"})
	r.close(f)
}

// spoiledLimit: a key of the wrong type is an error, and the unit stays in hand.
func spoiledLimit(r *rig) {
	r.push("a", 1)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 1)
	for key, limit := range map[string]string{keys.Slots(r.base(), "one"): "1", keys.Held(r.base(), "one"): "0", keys.HeldRules(r.base()): "0"} {
		r.limit("one", limit)
		r.must("spoil", r.rdb.LPush(r.ctx, key, "x").Err())
		m := r.ask(u[0], "one")
		if _, err := f.Settle(r.ctx, []fetch.Move{m}); err == nil || !strings.Contains(err.Error(), key) {
			r.t.Errorf("with %s of the wrong type: %v", key, err)
		}
		if m.Stay.Done {
			r.t.Error("it was let in all the same")
		}
		r.must("free the key", r.rdb.Del(r.ctx, key).Err())
	}
	r.limit("one", "1")
	moves, in := r.asks(f, u, "one")
	equal(r.t, "let in", in, []string{"a 0"})
	r.settle(f, r.leaving(moves[0]))
	r.close(f)
}

// fencedAsk: what is somebody else's is not asked for.
func fencedAsk(r *rig) {
	r.limit("one", "1")
	r.push("a", 1)
	f := r.dying("dying", fetch.Strict{"a"})
	u := r.take(f, 1)
	r.rescueUntil("the unit is back", func() bool { return len(r.queued("a")) == 1 })
	m := r.ask(u[0], "one")
	for range 2 {
		if results, err := f.Settle(r.ctx, []fetch.Move{m}); err == nil && results[0] == fetch.Moved {
			r.t.Error("a unit that is somebody else's was let in or held")
		}
	}
	equal(r.t, "slots", append(r.slots("one"), r.held("one")...), nil)
}

// largeAsk: large jobs are named, and held whole.
func largeAsk(r *rig) {
	r.limit("one", "1")
	var names []string
	for i := range 2 {
		names = append(names, fmt.Sprintf("a %d %s", i, strings.Repeat("x", 300<<10)))
		r.must("push", r.Push(r.ctx, r.rdb, "a", []byte(names[i])))
	}
	f := r.fetcher(fetch.Strict{"a"})
	moves, in := r.asks(f, r.takeAll(f, 2), "one")
	equal(r.t, "let in", in, names[:1])
	equal(r.t, "held", r.held("one"), names[1:])
	r.settle(f, r.leaving(moves[0]))
	next, in := r.asks(f, r.take(f, 1), "one")
	equal(r.t, "let in", in, names[1:])
	r.settle(f, r.leaving(next[0]))
	r.close(f)
}

// pausedHeld: a job of a paused queue goes back there, and has no slot.
func pausedHeld(r *rig) {
	if r.TwoSteps {
		return // the set of paused queues is in another slot
	}
	r.limit("one", "1")
	r.push("a", 2)
	f := r.fetcher(fetch.Strict{"a"})
	moves, _ := r.asks(f, r.take(f, 2), "one")
	r.pause("a", true)
	r.settle(f, r.leaving(moves[0]))
	equal(r.t, "queue", r.queued("a"), []string{"a 1"})
	equal(r.t, "slots", r.slots("one"), nil)
	r.pause("a", false)
	next, in := r.asks(f, r.take(f, 1), "one")
	equal(r.t, "let in", in, []string{"a 1"})
	r.settle(f, r.leaving(next[0]))
	r.close(f)
}

// manyAsks: bulks are not limited by what one call carries, and no job is overtaken by more than have a slot.
func manyAsks(r *rig) {
	r.limit("many", "30")
	names := r.push("a", 1300)
	f := r.fetcher(fetch.Strict{"a"})
	var ran []string
	for {
		units := r.takeAll(f, 1300)
		if len(units) == 0 {
			break
		}
		moves, in := r.asks(f, units, "many")
		if len(in) > 30 {
			r.t.Fatalf("%d were let in", len(in))
		}
		ran = append(ran, in...)
		var leave []fetch.Move
		for i, m := range moves {
			if m.Stay.Done {
				leave = append(leave, r.leaving(moves[i]))
			}
		}
		r.settle(f, leave...)
	}
	for i, name := range ran {
		if at := slices.Index(names, name); at < i-30 || at > i+30 {
			r.t.Errorf("%q ran as number %d", name, i)
		}
	}
	slices.Sort(ran)
	slices.Sort(names)
	equal(r.t, "ran", ran, names)
	r.close(f)
}

// releasedHeld: held jobs are let in by force, and go back to their queue without a slot.
func releasedHeld(r *rig) {
	r.limit("none", "0")
	names := r.push("a", 5)
	f := r.fetcher(fetch.Strict{"a"})
	r.asks(f, r.take(f, 5), "none")
	n, err := job.Release(r.ctx, r.rdb, r.base(), "none", 2, false)
	if err != nil || n != 2 {
		r.t.Errorf("released %d, %v", n, err)
	}
	moves, in := r.asks(f, r.take(f, 5), "none")
	equal(r.t, "let in", in, names[:2])
	r.settle(f, r.leaving(moves[0]), r.leaving(moves[1]))
	n, err = job.Release(r.ctx, r.rdb, r.base(), "none", 100, true)
	if err != nil || n != 3 {
		r.t.Errorf("sent back %d, %v", n, err)
	}
	equal(r.t, "queue", r.queued("a"), names[2:])
	equal(r.t, "slots", r.slots("none"), nil)
	r.take(f, 0, r.take(f, 3)...)
	r.close(f)
}

// askAll has the units in hand ask a rule, until that succeeds.
func (r *rig) askAll(f fetch.Fetcher, h *tally, rule string, ahead bool) (asks []fetch.Move) {
	for _, u := range h.inHand {
		m := r.ask(u, rule)
		m.Effects.Rules.Ahead = ahead
		asks = append(asks, m)
	}
	r.eventually("ask", func(ctx context.Context) error {
		_, err := f.Settle(ctx, asks)
		return err
	})
	return asks
}

// limitOps ask and leave, and are repeated until they succeed.
var limitOps = []lostOp{
	{"ask", func(r *rig, f fetch.Fetcher, h *tally) {
		r.limit("two", "2")
		asks := r.askAll(f, h, "two", false)
		h.inHand = nil
		for _, m := range asks {
			if m.Stay.Done {
				h.inHand = append(h.inHand, m.Unit)
			}
		}
		if len(h.inHand) != 2 {
			r.t.Errorf("%d were let in", len(h.inHand))
		}
		equal(r.t, "slots", r.slots("two"), payloads(h.inHand))
		equal(r.t, "held", r.held("two"), []string{"a 2", "a 3", "a 4", "a 5"})
		r.releaseAll("two", h, 2)
	}},
	{"ask ahead", func(r *rig, f fetch.Fetcher, h *tally) {
		r.limit("twenty", "20")
		for _, ahead := range []bool{true, false} {
			for _, m := range r.askAll(f, h, "twenty", ahead) {
				if !m.Stay.Done && (!ahead || !m.Stay.Again) {
					r.t.Errorf("%q asked, ahead %v: %+v", m.Unit.Payload, ahead, *m.Stay)
				}
			}
		}
		equal(r.t, "slots", r.slots("twenty"), payloads(h.inHand))
	}},
	{"leave", func(r *rig, f fetch.Fetcher, h *tally) {
		r.limit("two", "2")
		asks := r.askAll(f, h, "two", false)
		h.inHand = nil
		r.eventually("leave", func(ctx context.Context) error {
			_, err := f.Settle(ctx, []fetch.Move{r.leaving(asks[0]), r.leaving(asks[1])})
			return err
		})
		equal(r.t, "slots", r.slots("two"), []string{"a 2", "a 3"})
		equal(r.t, "held", r.held("two"), []string{"a 4", "a 5"})
		h.want = append(h.want, "a 2", "a 3") // they come again
		r.releaseAll("two", h, 4)
	}},
}

// releaseAll has the held jobs come again, from number first on.
func (r *rig) releaseAll(rule string, h *tally, first int) {
	for i := first; i < 6; i++ {
		h.want = append(h.want, fmt.Sprintf("a %d", i))
	}
	if n, err := job.Release(r.ctx, r.rdb, r.base(), rule, 100, true); err != nil || n != 6-first {
		r.t.Errorf("sent back %d of %d, %v", n, 6-first, err)
	}
}

// inAnHour is a slot that lives for long.
func inAnHour(jid string) redis.Z {
	return redis.Z{Score: float64(time.Now().Add(time.Hour).Unix()), Member: jid}
}
