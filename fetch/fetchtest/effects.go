package fetchtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
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

// effectOps push, and are repeated until they succeed.
var effectOps = []lostOp{
	{"done, with pushes", func(r *rig, f fetch.Fetcher, h *tally) {
		u := h.inHand
		h.inHand = slices.Clone(u[4:])
		h.retry = []string{"a 3@1.5"}
		h.want = append(h.want, "a child of 0", "a child of 1", "a second of 1")
		r.eventually("settle", func(ctx context.Context) error {
			_, err := f.Settle(ctx, []fetch.Move{
				{Unit: u[0], To: fetch.ToNone, Effects: children(u[0], "a child of 0")},
				{Unit: u[1], To: fetch.ToNone, Effects: children(u[1], "a child of 1", "a second of 1")},
				{Unit: u[2], To: fetch.ToNone},
				{Unit: u[3], To: fetch.ToRetry, Score: 1.5},
			})
			return err
		})
	}},
	{"done, with locks", func(r *rig, f fetch.Fetcher, h *tally) {
		u := h.inHand
		h.inHand = slices.Clone(u[3:])
		h.want = append(h.want, "a unique child")
		lock := func(name, jid string) *job.Lock {
			key := keys.Lock(name, u[0].Queue, r.TwoSteps)
			return &job.Lock{Key: key, JID: jid, For: time.Hour}
		}
		for _, l := range []*job.Lock{lock("1", "j1"), lock("2", "somebody"), lock("3", "j3")} {
			r.must("lock", r.rdb.Set(r.ctx, l.Key, l.JID, time.Minute).Err())
		}
		child := func(name string, l *job.Lock) fetch.Push {
			return fetch.Push{Queue: "a", Payload: []byte(name), Lock: l}
		}
		r.eventually("settle", func(ctx context.Context) error {
			_, err := f.Settle(ctx, []fetch.Move{
				{Unit: u[0], To: fetch.ToNone, Effects: &fetch.Effects{Lock: lock("1", "j1"), Push: []fetch.Push{child("a unique child", lock("4", "j4")), child("a duplicate", lock("2", "j5"))}}},
				{Unit: u[1], To: fetch.ToNone, Effects: &fetch.Effects{Lock: lock("2", "j2")}},
				{Unit: u[2], To: fetch.ToNone, Effects: &fetch.Effects{Lock: lock("3", "j3"), Keep: time.Hour}},
			})
			return err
		})
		for name, want := range map[string]string{"1": "", "2": "somebody", "3": "j3", "4": "j4"} {
			if holder := r.rdb.Get(r.ctx, lock(name, "").Key).Val(); holder != want {
				r.t.Errorf("lock %s: held by %q, expected %q", name, holder, want)
			}
		}
		if ttl := r.rdb.TTL(r.ctx, lock("3", "").Key).Val(); ttl < 50*time.Minute {
			r.t.Errorf("the lock that is kept lives for %v", ttl)
		}
	}},
	{"done, in a batch", func(r *rig, f fetch.Fetcher, h *tally) {
		u := h.inHand
		h.inHand = slices.Clone(u[3:])
		h.retry = []string{"a 2@1.5"}
		moves := []fetch.Move{{Unit: u[0], To: fetch.ToNone}, {Unit: u[1], To: fetch.ToNone}, {Unit: u[2], To: fetch.ToRetry, Score: 1.5}}
		if !r.TwoSteps { // else there are no batches
			r.must("batch", r.rdb.HSet(r.ctx, keys.Batch("B"), "total", 3, "pending", 3, "unrun", 3, "closed", 1, "on:complete", `{"class":"C"`, "to:complete", "c").Err())
			for i, event := range []job.BatchEvent{job.BatchDone, job.BatchDone, job.BatchRan} {
				moves[i].Effects = &fetch.Effects{Count: &job.Count{InBatch: job.InBatch{ID: "B", Index: uint32(i)}, Event: event}}
			}
			// A batch that a job pushes, and that is empty, ends in the same step.
			join := &job.Join{ID: "B2", Fields: []any{"on:success", `{"class":"C"`, "to:success", "d"}}
			moves[0].Effects.Push = []fetch.Push{{Batch: join}}
		}
		r.eventually("settle", func(ctx context.Context) error {
			_, err := f.Settle(ctx, moves)
			return err
		})
		if r.TwoSteps {
			return
		}
		for queue, want := range map[string]int64{"c": 1, "d": 1} {
			if n := r.rdb.LLen(r.ctx, keys.Queue(queue)).Val(); n != want {
				r.t.Errorf("%d callbacks in queue %s, expected %d", n, queue, want)
			}
		}
		if got := fmt.Sprint(r.rdb.HMGet(r.ctx, keys.Batch("B"), "pending", "unrun", "success").Val()); got != "[1 0 <nil>]" {
			r.t.Errorf("the batch has %s pending, not run, succeeded; expected [1 0 <nil>]", got)
		}
	}},
	{"done, with results", func(r *rig, f fetch.Fetcher, h *tally) {
		u := h.inHand
		h.inHand = slices.Clone(u[3:])
		h.retry = []string{"a 2@1.5"}
		own := job.NewID() // all databases of a server have the same channels
		key := func(jid string) string {
			if r.TwoSteps {
				return "troupe:result:{queue:a}:" + own + jid
			}
			return keys.Result(own + jid)
		}
		told := r.rdb.Subscribe(r.ctx, key("j0"), key("j1"))
		defer func() { _ = told.Close() }()
		for range 2 { // the confirmations
			_, err := told.Receive(r.ctx)
			r.must("subscribe", err)
		}
		effects := func(jid, text string) *fetch.Effects {
			return &fetch.Effects{Result: &fetch.KeptEnd{Key: key(jid), Value: []byte(text), TTL: time.Hour}}
		}
		r.eventually("settle", func(ctx context.Context) error {
			_, err := f.Settle(ctx, []fetch.Move{
				{Unit: u[0], To: fetch.ToNone, Effects: effects("j0", "one")},
				{Unit: u[1], To: fetch.ToNone, Effects: effects("j1", "two")},
				{Unit: u[2], To: fetch.ToRetry, Score: 1.5},
			})
			return err
		})
		for jid, want := range map[string]string{"j0": "one", "j1": "two"} {
			if text := r.rdb.Get(r.ctx, key(jid)).Val(); text != want {
				r.t.Errorf("the result of %s is %q, expected %q", jid, text, want)
			}
			if ttl := r.rdb.TTL(r.ctx, key(jid)).Val(); ttl < 50*time.Minute {
				r.t.Errorf("the result of %s is kept for %v", jid, ttl)
			}
		}
		r.must("publish", r.rdb.Publish(r.ctx, key("j1"), "the end").Err())
		var heard []string
		for len(heard) == 0 || heard[len(heard)-1] != "the end" {
			m, err := told.ReceiveMessage(r.ctx)
			r.must("receive", err)
			heard = append(heard, m.Payload)
		}
		equal(r.t, "what was told", heard, []string{"one", "two", "the end"})
	}},
	{"stay, with pushes", func(r *rig, f fetch.Fetcher, h *tally) {
		u := h.inHand
		h.want = append(h.want, "a child of 0", "a child of 1")
		stays := []*fetch.Stay{{}, {}}
		r.eventually("settle", func(ctx context.Context) error {
			_, err := f.Settle(ctx, []fetch.Move{
				{Unit: u[0], To: fetch.ToStay, Stay: stays[0], Effects: children(u[0], "a child of 0")},
				{Unit: u[1], To: fetch.ToStay, Stay: stays[1], Effects: children(u[1], "a child of 1")},
			})
			return err
		})
		if !stays[0].Done || !stays[1].Done {
			r.t.Errorf("stays that were carried out say %v and %v", *stays[0], *stays[1])
		}
	}},
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
