package fetchtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/troupehq/troupe/fetch"
)

// lostOp is one operation of a fetcher during which a connection breaks. It
// starts with the six units of queue a in hand and repeats until it succeeds.
type lostOp struct {
	name string
	run  func(r *rig, f fetch.Fetcher, held *tally)
}

// tally follows what a scenario delivered and expects.
type tally struct {
	inHand []fetch.Unit
	seen   []string // every payload delivered
	want   []string // every payload that is to be delivered, doubles included
	retry  []string // payload@score, expected in the sets
	sched  []string
	dead   []string
	closed bool
}

func (h *tally) got(units []fetch.Unit) {
	h.inHand = append(h.inHand, units...)
	h.seen = append(h.seen, payloads(units)...)
}

// settleElsewhere is the operation whose move names a queue, moved the job that it moves.
const (
	settleElsewhere = "settle into another queue"
	moved           = "a 0, moved"
)

var lostOps = []lostOp{
	{"open", nil}, // special: see lostReply
	{"take", func(r *rig, f fetch.Fetcher, h *tally) {
		r.eventually("take", func(ctx context.Context) error {
			units, err := f.Take(ctx, 4, nil)
			h.got(units)
			return err
		})
	}},
	{"take and ack", func(r *rig, f fetch.Fetcher, h *tally) {
		acks := h.inHand[:3]
		h.inHand = slices.Clone(h.inHand[3:])
		r.eventually("take and ack", func(ctx context.Context) error {
			units, err := f.Take(ctx, 4, acks)
			h.got(units)
			return err
		})
	}},
	{"ack", func(r *rig, f fetch.Fetcher, h *tally) {
		acks := h.inHand
		h.inHand = nil
		r.eventually("ack", func(ctx context.Context) error {
			_, err := f.Take(ctx, 0, acks)
			return err
		})
	}},
	{"settle", func(r *rig, f fetch.Fetcher, h *tally) {
		u := h.inHand
		h.inHand = slices.Clone(u[5:])
		h.retry, h.sched, h.dead = []string{"again@1.5"}, []string{"a 1@2.5"}, []string{"a 2@3.5"}
		h.want = append(h.want, "a 3", "a 4, interrupted")
		r.eventually("settle", func(ctx context.Context) error {
			results, err := f.Settle(ctx, []fetch.Move{
				{Unit: u[0], To: fetch.ToRetry, Score: 1.5, Payload: []byte("again")},
				{Unit: u[1], To: fetch.ToSchedule, Score: 2.5},
				{Unit: u[2], To: fetch.ToDead, Score: 3.5},
				{Unit: u[3], To: fetch.ToQueue},
				{Unit: u[4], To: fetch.ToBack, Payload: []byte("a 4, interrupted")},
			})
			if err == nil && slices.Contains(results, fetch.NotMine) {
				r.t.Errorf("settle: results %v: units were taken for somebody else's", results)
			}
			return err
		})
	}},
	{settleElsewhere, func(r *rig, f fetch.Fetcher, h *tally) {
		u := h.inHand
		h.inHand = slices.Clone(u[2:])
		h.want = append(h.want, moved, "a 1, moved, too")
		r.eventually("settle", func(ctx context.Context) error {
			results, err := f.Settle(ctx, []fetch.Move{
				{Unit: u[0], To: fetch.ToBack, Queue: "b", Payload: []byte(moved)},
				{Unit: u[1], To: fetch.ToBack, Payload: []byte("a 1, moved, too")},
			})
			if err == nil && slices.Contains(results, fetch.NotMine) {
				r.t.Errorf("settle: results %v: units were taken for somebody else's", results)
			}
			return err
		})
	}},
	{"renew", func(r *rig, f fetch.Fetcher, _ *tally) {
		r.eventually("renew", f.Renew)
	}},
	{"close", func(r *rig, f fetch.Fetcher, h *tally) {
		r.closeAtLast(f, h)
	}},
	{"take, then close", func(r *rig, f fetch.Fetcher, h *tally) {
		if units, err := f.Take(r.ctx, 4, nil); err == nil {
			h.got(units)
		} // else Close gives back what it had taken
		r.closeAtLast(f, h)
	}},
}

// closeAtLast acks what is in hand and closes.
func (r *rig) closeAtLast(f fetch.Fetcher, h *tally) {
	r.t.Helper()
	acks := h.inHand
	h.inHand = nil
	r.eventually("ack", func(ctx context.Context) error {
		_, err := f.Take(ctx, 0, acks)
		return err
	})
	r.eventually("close", func(ctx context.Context) error {
		left, err := f.Close(ctx)
		if left != 0 {
			r.t.Errorf("close: %d left, expected none", left)
		}
		return err
	})
	h.closed = true
}

// lostReply breaks the connection at each request of an operation in turn. The
// operation is repeated until it succeeds; then every job has been delivered
// once, every move was done once, and the fetcher holds nothing unknown.
func lostReply(r *rig, op lostOp, kind fault, retries int) {
	for skip := 0; ; skip++ {
		if skip > 20 {
			r.t.Fatal("the operation makes more than 20 requests")
		}
		r.must("flush", r.rdb.FlushDB(r.ctx).Err())
		if !lostReplyAt(r, op, kind, retries, skip) {
			if skip == 0 {
				r.t.Fatal("the fault never struck")
			}
			return
		}
		if r.t.Failed() {
			r.t.Fatalf("with the fault at request %d", skip)
		}
	}
}

func lostReplyAt(r *rig, op lostOp, kind fault, retries, skip int) (struck bool) {
	env := r.env("default", fetch.Strict{"a", "b"})
	rdb, err := client(r.url, retries, r.net)
	r.must("client", err)
	defer func() { _ = rdb.Close() }()
	h := &tally{}
	env.Redis = rdb
	h.want = append(r.push("a", 6), r.push("b", 6)...)
	f, err := r.New(env)
	r.must("new fetcher", err)
	if op.run == nil {
		r.net.arm(kind, skip)
	}
	r.eventually("open", f.Open)
	if op.run != nil {
		h.got(r.take(f, 6))
		r.net.arm(kind, skip)
		op.run(r, f, h)
	}
	struck = r.net.disarm()
	r.net.releaseLate()

	if h.closed {
		f = r.start(func() fetch.Env { e := env; e.Capsule = "second"; return e }())
	}
	for idle := 0; idle < 2; {
		acks := h.inHand
		h.inHand = nil
		units := r.take(f, 5, acks...)
		h.got(units)
		for _, u := range units {
			if (u.Queue == "b") != (u.Payload[0] == 'b' || string(u.Payload) == moved) {
				r.t.Errorf("%q is from the queue %s", u.Payload, u.Queue)
			}
		}
		if len(units) == 0 {
			idle++
		}
	}
	r.close(f)
	slices.Sort(h.seen)
	slices.Sort(h.want)
	if r.TwoSteps { // it may have been put there twice
		again := func(a, b string) bool { return a == b && a == moved }
		h.seen = slices.CompactFunc(h.seen, again)
	}
	equal(r.t, "delivered", h.seen, h.want)
	r.members(fetch.ToRetry, h.retry...)
	r.members(fetch.ToSchedule, h.sched...)
	r.members(fetch.ToDead, h.dead...)
	for _, queue := range []string{"a", "b"} {
		equal(r.t, fmt.Sprintf("queue %s in the end", queue), r.queued(queue), nil)
	}
	return struck
}
