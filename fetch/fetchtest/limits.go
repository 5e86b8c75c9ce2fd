package fetchtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// Limits checks what a fetch.Effector owes limits, beside Effects: a unit that asks is let in or held in one step, slots are
// given to others in the step in which their jobs leave, and none is lost with a reply. Its tests run in parallel.
func Limits(t *testing.T, h Harness) {
	for name, test := range map[string]func(*rig){
		"at once":                atOnce,
		"a rate":                 rated,
		"all rules or none":      allOrNone,
		"a slot that is kept":    keptSlot,
		"a run that goes on":     renamedSlot,
		"room in any case":       forcedSlot,
		"ahead of the run":       askedAhead,
		"a queue that refuses":   refusedHeld,
		"a limit that is not":    noLimit,
		"keys of the wrong type": spoiledLimit,
		"a fence":                fencedAsk,
		"large jobs":             largeAsk,
		"a paused queue":         pausedHeld,
		"hundreds in a call":     manyAsks,
		"back and by force":      releasedHeld,
		"a breaker":              breaker,
		"a breaker alone":        breakerAlone,
		"let in before it rests": brokenBefore,
		"ahead of a breaker":     aheadOfBreaker,
		"older ones elsewhere":   olderElsewhere,
		"older ones first":       olderFirst,
		"older ones once":        olderOnce,
		"older ones blocked":     olderBlocked,
		"a rest that is asked":   askedRest,
		"a probe that dies":      deadProbe,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(setUp(t, h))
		})
	}
	for _, op := range limitOps {
		for _, kind := range []fault{cutBefore, cutAfter, late} {
			t.Run("lost reply/"+op.name+", "+kind.String(), func(t *testing.T) {
				t.Parallel()
				lostReply(setUp(t, h), op, kind, -1)
			})
		}
		t.Run("lost reply/"+op.name+", client repeats silently", func(t *testing.T) {
			t.Parallel()
			lostReply(setUp(t, h), op, cutAfter, 3)
		})
	}
}

// base begins the keys of the limits of queue a.
func (r *rig) base() string { return keys.LimitBase("a", r.TwoSteps) }

// limit sets what a limit allows.
func (r *rig) limit(name, text string) {
	r.t.Helper()
	r.must("set a limit", r.rdb.HSet(r.ctx, keys.Limits(r.base()), name, text).Err())
}

// ask is a move of a unit that asks rules; its payload is its jid, and its number its age.
func (r *rig) ask(u fetch.Unit, rules ...string) fetch.Move {
	age := 0
	_, _ = fmt.Sscanf(string(u.Payload[1:]), "%d", &age)
	jid := string(u.Payload[:min(len(u.Payload), 20)])
	return fetch.Move{Unit: u, To: fetch.ToStay, Stay: &fetch.Stay{}, Effects: &fetch.Effects{Rules: &job.Rules{
		Base: r.base(), IDs: rules, JID: jid, Age: float64(age), Lease: 30 * time.Second,
	}}}
}

// asks are such moves, settled; in are the units that were let in.
func (r *rig) asks(f fetch.Fetcher, units []fetch.Unit, rules ...string) (moves []fetch.Move, in []string) {
	r.t.Helper()
	for _, u := range units {
		moves = append(moves, r.ask(u, rules...))
	}
	r.settle(f, moves...)
	for _, m := range moves {
		if m.Stay.Done {
			in = append(in, string(m.Unit.Payload))
		} else if m.Stay.Held == "" {
			r.t.Errorf("%q was not let in, and nobody says what holds it", m.Unit.Payload)
		}
	}
	return moves, in
}

// leaving is a move of a unit that is done and leaves its rules.
func (r *rig) leaving(asked fetch.Move) fetch.Move {
	rules := *asked.Effects.Rules
	return fetch.Move{Unit: asked.Unit, To: fetch.ToNone, Effects: &fetch.Effects{Rules: &rules}}
}

// held are the jobs that a rule holds, the oldest first.
func (r *rig) held(rule string) (all []string) {
	r.t.Helper()
	members, err := r.rdb.ZRange(r.ctx, keys.Held(r.base(), rule), 0, -1).Result()
	r.must("list what is held", err)
	for _, m := range members {
		h, ok := job.ParseHeld(m)
		if !ok {
			r.t.Errorf("held: %q", m)
		}
		all = append(all, string(h.Payload))
	}
	return all
}

// slots are who has a slot of a rule.
func (r *rig) slots(rule string) []string {
	r.t.Helper()
	all, err := r.rdb.ZRange(r.ctx, keys.Slots(r.base(), rule), 0, -1).Result()
	r.must("list slots", err)
	slices.Sort(all)
	return all
}

// atOnce: so many are let in, the oldest of a call, the others are held and come in order of their age as others leave.
func atOnce(r *rig) {
	r.limit("two", "2")
	names := r.push("a", 6)
	f := r.fetcher(fetch.Strict{"a"})
	units := r.take(f, 6)
	slices.Reverse(units) // in which order they ask in a call does not matter
	moves, in := r.asks(f, units, "two:x")
	slices.Reverse(moves)
	slices.Reverse(in)
	equal(r.t, "let in", in, names[:2])
	equal(r.t, "held", r.held("two:x"), names[2:])
	equal(r.t, "slots", r.slots("two:x"), names[:2])
	if moves[2].Stay.Held != "two:x" {
		r.t.Errorf("the third is held by %q", moves[2].Stay.Held)
	}
	rules, err := r.rdb.ZRange(r.ctx, keys.HeldRules(r.base()), 0, -1).Result()
	r.must("list rules", err)
	equal(r.t, "rules that hold", rules, []string{"two:x"})
	for k := 0; k < 4; k += 2 { // two leave in one call: two come, the older one first
		r.settle(f, r.leaving(moves[k]), r.leaving(moves[k+1]))
		equal(r.t, "slots", r.slots("two:x"), names[k+2:k+4])
		next, in := r.asks(f, r.take(f, 6), "two:x")
		equal(r.t, "let in", in, names[k+2:k+4])
		copy(moves[k+2:], next)
	}
	r.push("a", 1) // a newcomer
	_, in = r.asks(f, r.take(f, 1), "two:x")
	equal(r.t, "a newcomer that is let in", in, nil)
	r.settle(f, fetch.Move{Unit: moves[4].Unit, To: fetch.ToRetry, Score: 1, Effects: r.leaving(moves[4]).Effects}, r.leaving(moves[5]))
	next, in := r.asks(f, r.take(f, 6), "two:x")
	equal(r.t, "let in", in, names[:1])
	r.settle(f, r.leaving(next[0]))
	equal(r.t, "slots", r.slots("two:x"), nil)
	if n := r.rdb.Exists(r.ctx, keys.HeldRules(r.base()), keys.Held(r.base(), "two:x")).Val(); n != 0 {
		r.t.Error("a rule holds nothing and is still known to hold")
	}
	r.members(fetch.ToRetry, "a 4@1")
	r.close(f)
}

// rated: a burst is let in, then one for each token; what was let in and has not come is not counted twice.
func rated(r *rig) {
	r.limit("rate", "3 1000")
	names := r.push("a", 6)
	f := r.fetcher(fetch.Strict{"a"})
	moves, in := r.asks(f, r.take(f, 6), "rate")
	equal(r.t, "let in", in, names[:3])
	equal(r.t, "held", r.held("rate"), names[3:])
	r.settle(f, r.leaving(moves[0])) // of a rate nothing is given back
	equal(r.t, "held", r.held("rate"), names[3:])
	r.limit("rate", "4 0.001") // its tokens are back soon, but it has spent thousands of seconds
	r.must("forget what was spent", r.rdb.Del(r.ctx, keys.Rate(r.base(), "rate")).Err())
	n, next, err := job.LetIn(r.ctx, r.rdb, r.base(), 100)
	r.must("let in", err)
	if n != 0 {
		r.t.Errorf("%d were let in before the rule was due (in %v)", n, next)
	}
	r.settle(f, r.leaving(moves[1]))
	equal(r.t, "on their way", r.slots("rate"), names[3:])
	_, in = r.asks(f, r.take(f, 3), "rate")
	equal(r.t, "let in", in, names[3:])
	equal(r.t, "on their way", r.slots("rate"), nil)
	r.settle(f, fetch.Move{Unit: moves[2].Unit, To: fetch.ToNone})
}

// allOrNone: a job that one of its rules refuses has no slot of the others, and one that is let in has all.
func allOrNone(r *rig) {
	r.limit("wide", "3")
	r.limit("narrow", "1")
	names := r.push("a", 3)
	f := r.fetcher(fetch.Strict{"a"})
	moves, in := r.asks(f, r.take(f, 3), "wide", "narrow")
	equal(r.t, "let in", in, names[:1])
	equal(r.t, "slots of the wide one", r.slots("wide"), names[:1])
	equal(r.t, "held", r.held("narrow"), names[1:])
	equal(r.t, "held by the wide one", r.held("wide"), nil)
	r.limit("wide", "1") // full, and the job that the narrow one lets in waits for it from here on
	r.must("take the wide one", r.rdb.ZAdd(r.ctx, keys.Slots(r.base(), "wide"), inAnHour("another")).Err())
	r.settle(f, r.leaving(moves[0]))
	equal(r.t, "slots of the narrow one", r.slots("narrow"), nil)
	equal(r.t, "held by the wide one", r.held("wide"), names[1:])
	equal(r.t, "queue", r.queued("a"), nil)
	r.must("free the wide one", r.rdb.Del(r.ctx, keys.Slots(r.base(), "wide")).Err())
	for _, name := range names[1:] {
		n, err := job.Release(r.ctx, r.rdb, r.base(), "wide", 0, false) // looks, and lets none in by force
		if err != nil || n != 0 {
			r.t.Errorf("%d were let in, %v", n, err)
		}
		r.until("the rule is due", func() bool {
			n, _, err := job.LetIn(r.ctx, r.rdb, r.base(), 100)
			r.must("let in", err)
			return n == 1
		})
		next, in := r.asks(f, r.take(f, 3), "wide", "narrow")
		equal(r.t, "let in", in, []string{name})
		rest := r.held("wide")
		r.settle(f, r.leaving(next[0]))
		if len(rest) > 0 {
			equal(r.t, "slots", r.slots("wide"), rest)
			next, in = r.asks(f, r.take(f, 3), "wide", "narrow")
			equal(r.t, "let in", in, rest)
			r.settle(f, r.leaving(next[0]))
			break
		}
	}
	r.close(f)
}

// keptSlot: a job that goes back to its queue keeps its slot for a while, for itself alone.
func keptSlot(r *rig) {
	r.limit("one", "1")
	names := r.push("a", 2)
	f := r.fetcher(fetch.Strict{"a"})
	moves, _ := r.asks(f, r.take(f, 2), "one")
	back := r.leaving(moves[0])
	back.To, back.Effects.Rules.Keep = fetch.ToQueue, time.Minute
	r.settle(f, back)
	equal(r.t, "slots", r.slots("one"), names[:1])
	next, in := r.asks(f, r.take(f, 2), "one")
	equal(r.t, "let in", in, names[:1])
	equal(r.t, "held", r.held("one"), names[1:])
	r.settle(f, r.leaving(next[0]))
	last, _ := r.asks(f, r.take(f, 2), "one")
	r.settle(f, r.leaving(last[0]))
	r.close(f)
}

// renamedSlot: the slot of a run that was given up is that of another name, for which there is room as long as it lives.
func renamedSlot(r *rig) {
	r.limit("one", "1")
	r.push("a", 1)
	f := r.fetcher(fetch.Strict{"a"})
	moves, _ := r.asks(f, r.take(f, 1), "one")
	given := r.leaving(moves[0])
	given.To, given.Effects.Rules.Keep, given.Effects.Rules.As = fetch.ToBack, time.Minute, "a 0~1"
	r.settle(f, given)
	equal(r.t, "slots", r.slots("one"), []string{"a 0~1"})
	_, in := r.asks(f, r.take(f, 1), "one")
	equal(r.t, "let in", in, nil)
	equal(r.t, "held", r.held("one"), []string{"a 0"})
	r.close(f)
}

// forcedSlot: a job that runs takes a slot again that Redis has forgotten.
func forcedSlot(r *rig) {
	r.limit("one", "1")
	names := r.push("a", 2)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 2)
	first, _ := r.asks(f, u[:1], "one")
	r.must("forget the slot", r.rdb.Del(r.ctx, keys.Slots(r.base(), "one")).Err())
	second, in := r.asks(f, u[1:], "one")
	equal(r.t, "let in", in, names[1:])
	again := r.ask(u[0], "one")
	again.Effects.Rules.Force = true
	r.settle(f, again)
	if !again.Stay.Done {
		r.t.Error("a job that runs got no slot")
	}
	equal(r.t, "slots", r.slots("one"), names)
	r.settle(f, r.leaving(first[0]), r.leaving(second[0]))
	r.close(f)
}

// askedAhead: a unit that asks ahead is let in while more than half of the limit is free, or its only slot. Else nothing happens to
// it: it is not held, and asks again.
func askedAhead(r *rig) {
	r.limit("six", "6")
	r.limit("one", "1")
	r.limit("often", "6 1000")
	names := r.push("a", 16)
	f := r.fetcher(fetch.Strict{"a"})
	units := r.take(f, 16)
	ahead := func(units []fetch.Unit, rules ...string) (in []string) {
		r.t.Helper()
		var moves []fetch.Move
		for _, u := range units {
			m := r.ask(u, rules...)
			m.Effects.Rules.Ahead = true
			moves = append(moves, m)
		}
		r.settle(f, moves...)
		for _, m := range moves {
			if m.Stay.Done {
				in = append(in, string(m.Unit.Payload))
			}
			if m.Stay.Again == m.Stay.Done || m.Stay.Held != "" {
				r.t.Errorf("%q: %+v", m.Unit.Payload, *m.Stay)
			}
		}
		return in
	}
	equal(r.t, "let in ahead while more than half is free", ahead(units[:5], "six"), names[:3])
	equal(r.t, "slots", r.slots("six"), names[:3])
	equal(r.t, "held", r.held("six"), nil)
	equal(r.t, "let in ahead by the only slot", ahead(units[5:7], "one"), names[5:6])
	equal(r.t, "let in ahead by a rate", ahead(units[7:12], "often"), names[7:10])
	equal(r.t, "let in ahead by all rules or none", ahead(units[12:13], "often", "missing"), nil)
	again, in := r.asks(f, units[3:5], "six")
	equal(r.t, "let in once they ask again", in, names[3:5])
	more, in := r.asks(f, units[13:16], "six")
	equal(r.t, "let in of the others", in, names[13:14])
	equal(r.t, "held", r.held("six"), names[14:])
	r.settle(f, r.leaving(again[0]), r.leaving(more[0]))
	equal(r.t, "let in ahead past who waits", ahead(units[12:13], "six"), nil)
}
