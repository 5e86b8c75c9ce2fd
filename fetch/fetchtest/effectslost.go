package fetchtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

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
