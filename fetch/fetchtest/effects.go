package fetchtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe/fetch"
)

// Effects checks what a fetch.Effector owes beside Delivery and Crash: what a move has for effects happens once, in
// its step, whatever becomes of calls and replies, or not at all. Its tests run in parallel.
func Effects(t *testing.T, h Harness) {
	for name, test := range map[string]func(*rig){
		"in the step":      effectsHappen,
		"a refused push":   refusedPush,
		"a fence":          fencedEffects,
		"more than a call": manyEffects,
		"after the move":   effectsOfMoved,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(setUp(t, h))
		})
	}
	for _, op := range effectOps {
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

// children are pushes into the queue of a unit.
func children(of fetch.Unit, names ...string) *fetch.Effects {
	e := &fetch.Effects{}
	for _, name := range names {
		e.Push = append(e.Push, fetch.Push{Queue: of.Queue, Payload: []byte(name)})
	}
	return e
}

// effectsHappen: each push is at its place, with the bytes, in order, and the units are where their moves say.
func effectsHappen(r *rig) {
	r.push("a", 4)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 4)
	reaches := func(key string) bool { return f.(fetch.Effector).Reaches("a", key) == nil }
	effects := children(u[0], "first", "second")
	want := []string{"first", "second", "third"}
	var others []string
	if reaches("queue:b") {
		effects.Push = append(effects.Push, fetch.Push{Queue: "b", Payload: []byte("other")})
		others = []string{"other"}
	}
	if reaches("schedule") {
		effects.Push = append(effects.Push, fetch.Push{Queue: "b", Score: "2.5", Payload: []byte("later")})
	}
	stay := &fetch.Stay{}
	last := children(u[1], "third")
	if reaches("it-1") {
		last.Hash = &fetch.Hash{Key: "it-1", Fields: []any{"ex", 2, "c", []byte("7")}, TTL: time.Hour}
	}
	r.settle(f, fetch.Move{Unit: u[0], To: fetch.ToNone, Effects: effects}, fetch.Move{Unit: u[1], To: fetch.ToStay, Stay: stay, Effects: last})
	if !stay.Done {
		r.t.Error("the stay was not carried out")
	}
	equal(r.t, "queue a", r.queued("a"), want)
	equal(r.t, "queue b", r.queued("b"), others)
	listed, err := r.Listed(r.ctx, r.rdb)
	r.must("list the queues", err)
	if others != nil && !slices.Contains(listed, "b") {
		r.t.Errorf("the known queues are %q", listed)
	}
	if reaches("schedule") {
		r.members(fetch.ToSchedule, "later@2.5")
	}
	if reaches("it-1") {
		fields, err := r.rdb.HGetAll(r.ctx, "it-1").Result()
		if ttl := r.rdb.TTL(r.ctx, "it-1").Val(); err != nil || fields["ex"] != "2" || fields["c"] != "7" || ttl < 50*time.Minute {
			r.t.Errorf("the hash is %v, for %v, %v", fields, ttl, err)
		}
	}
	// A move that is passed again does nothing again, and what stays is settled like any other.
	r.settle(f, fetch.Move{Unit: u[1], To: fetch.ToStay, Stay: stay, Effects: last})
	r.settle(f, fetch.Move{Unit: u[1], To: fetch.ToRetry, Score: 1}, fetch.Move{Unit: u[2], To: fetch.ToNone}, fetch.Move{Unit: u[3], To: fetch.ToNone})
	equal(r.t, "queue a", r.queued("a"), want)
	r.members(fetch.ToRetry, "a 1@1")
	r.close(f)
}

// refusedPush: where one push of a unit is refused none of the others stays, and neither does the outcome; the same
// move succeeds when the queue is mended.
func refusedPush(r *rig) {
	if r.TwoSteps {
		return // only the own queue is reached: one of another type has no units
	}
	r.push("a", 4)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 4)
	restore := r.spoil("b")
	effects := &fetch.Effects{Push: []fetch.Push{
		{Queue: "a", Payload: []byte("one")}, {Queue: "a", Payload: []byte("two")},
		{Queue: "c", Score: "3", Payload: []byte("later")}, {Queue: "b", Payload: []byte("refused")},
	}}
	stay := &fetch.Stay{}
	moves := []fetch.Move{
		{Unit: u[0], To: fetch.ToNone, Effects: effects},
		{Unit: u[1], To: fetch.ToStay, Stay: stay, Effects: effects},
		{Unit: u[2], To: fetch.ToRetry, Score: 1},
	}
	// What is refused does not undo what goes with it.
	if _, err := f.Settle(r.ctx, []fetch.Move{{Unit: u[3], To: fetch.ToBack}, moves[1], moves[0]}); err == nil {
		r.t.Error("settle with a push into a key of the wrong type: no error")
	}
	equal(r.t, "queue a", r.queued("a"), []string{"a 3"})
	u[3] = r.take(f, 1)[0]
	r.take(f, 0, u[3])
	for range 3 {
		for i := range moves {
			if _, err := f.Settle(r.ctx, moves[i:i+1]); (err == nil) != (i == 2) {
				r.t.Errorf("settle of move %d: %v", i, err)
			}
		}
		if _, err := f.Settle(r.ctx, moves); err == nil {
			r.t.Error("settle with a push into a key of the wrong type: no error")
		}
		equal(r.t, "queue a", r.queued("a"), nil)
		r.members(fetch.ToSchedule)
		r.members(fetch.ToRetry, "a 2@1")
	}
	if stay.Done {
		r.t.Error("the stay counts as carried out")
	}
	restore()
	r.settle(f, moves...)
	equal(r.t, "queue a", r.queued("a"), []string{"one", "two", "one", "two"})
	equal(r.t, "queue b", r.queued("b"), []string{"refused", "refused"})
	r.members(fetch.ToSchedule, "later@3")
	r.take(f, 0, u[1])
	r.close(f)
}

// fencedEffects: nothing happens for a unit that is somebody else's.
func fencedEffects(r *rig) {
	pushed := r.push("a", 2)
	f := r.dying("dying", fetch.Strict{"a"})
	u := r.take(f, 2)
	r.rescueUntil("the units are back", func() bool { return len(r.queued("a")) == 2 })
	stay := &fetch.Stay{}
	moves := []fetch.Move{
		{Unit: u[0], To: fetch.ToNone, Effects: children(u[0], "child")},
		{Unit: u[1], To: fetch.ToStay, Stay: stay, Effects: children(u[1], "child")},
	}
	for range 2 {
		results, err := f.Settle(r.ctx, moves)
		if fenced := new(fetch.FencedError); err != nil && !errors.As(err, &fenced) {
			r.t.Errorf("settle after a fence: %v", err)
		}
		if err == nil && slices.Contains(results, fetch.Moved) {
			r.t.Errorf("settle after a fence: results %v", results)
		}
	}
	if stay.Done {
		r.t.Error("the stay counts as carried out")
	}
	got := r.queued("a")
	slices.Sort(got)
	equal(r.t, "queue a", got, pushed)
}

// manyEffects: bulks are not limited by what one command or one call carries.
func manyEffects(r *rig) {
	r.push("a", 700)
	f := r.fetcher(fetch.Strict{"a"})
	var moves []fetch.Move
	var want []string
	for i, u := range r.takeAll(f, 900) {
		var names []string
		for k := range 1 + i%30 {
			names = append(names, fmt.Sprintf("child %d of %d", k, i))
		}
		if i == 350 {
			for k := range 3000 {
				names = append(names, fmt.Sprintf("one of many, %d", k))
			}
		}
		want = append(want, names...)
		moves = append(moves, fetch.Move{Unit: u, To: fetch.ToNone, Effects: children(u, names...)})
	}
	r.settle(f, moves...)
	equal(r.t, "queue", r.queued("a"), want)
	again := r.takeAll(f, 900)
	r.take(f, 0, again...)
	r.close(f)
}

// effectsOfMoved: a unit that was settled otherwise has no effects any more, and a stay of it says so.
func effectsOfMoved(r *rig) {
	r.push("a", 1)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 1)
	stay := &fetch.Stay{}
	r.settle(f, fetch.Move{Unit: u[0], To: fetch.ToRetry, Score: 1})
	if _, err := f.Settle(r.ctx, []fetch.Move{{Unit: u[0], To: fetch.ToStay, Stay: stay, Effects: children(u[0], "child")}}); err != nil {
		r.t.Error(err)
	}
	if stay.Done {
		r.t.Error("the stay counts as carried out")
	}
	equal(r.t, "queue", r.queued("a"), nil)
	r.close(f)
}
