package fetchtest

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
)

// ends is a move of a unit that leaves its rules and tells their breakers how it has ended.
func (r *rig) ends(asked fetch.Move, said ...string) fetch.Move {
	m := r.leaving(asked)
	m.Effects.Rules.Said = said
	return m
}

// restEnds ends the rest of a rule now.
func (r *rig) restEnds(rule string) {
	r.t.Helper()
	r.must("end a rest", r.rdb.HSet(r.ctx, keys.Rest(r.base(), rule), "ends", "1.000000").Err())
}

// letIn lets held jobs in as the leader does, whenever the rules are due.
func (r *rig) letIn(rule string) int {
	r.t.Helper()
	r.must("make it due", r.rdb.ZAdd(r.ctx, keys.HeldRules(r.base()), redis.Z{Score: 1, Member: rule}).Err())
	n, _, err := job.LetIn(r.ctx, r.rdb, r.base(), 100)
	r.must("let in", err)
	return n
}

// breaker: so many failures in a row and nobody is let in; then one at a time, until one is done. Each is told.
func breaker(r *rig) {
	r.limit("api", "5 breaker 2 100")
	names := r.push("a", 9)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 9)
	moves, in := r.asks(f, u[:4], "api:x")
	equal(r.t, "let in", in, names[:4])
	failed, done := r.ends(moves[0], job.SaidFailed), r.ends(moves[1], job.SaidOK)
	r.settle(f, failed)
	r.settle(f, done) // the row has ended
	again, open := r.ends(moves[2], job.SaidFailed), r.ends(moves[3], job.SaidFailed)
	r.settle(f, again)
	if n := len(failed.Effects.Breakers) + len(done.Effects.Breakers) + len(again.Effects.Breakers); n != 0 {
		r.t.Errorf("%d tell of a breaker that has not opened", n)
	}
	before := time.Now()
	r.settle(f, open)
	if j := open.Effects.Breakers; len(j) != 1 || j[0].Rule != "api:x" || j[0].Closed || j[0].Again || j[0].Ends.Sub(before) < 90*time.Second || j[0].Ends.Sub(before) > 110*time.Second {
		r.t.Errorf("opened: %+v", j)
	}
	_, in = r.asks(f, u[4:8], "api:x")
	equal(r.t, "let in while it rests", in, nil)
	other, in := r.asks(f, u[8:], "api:y") // of another key
	equal(r.t, "let in", in, names[8:])
	r.settle(f, r.ends(other[0], job.SaidOK))
	if n := r.letIn("api:x"); n != 0 {
		r.t.Errorf("%d are let in while it rests", n)
	}
	for i, said := range []string{job.SaidFailed, "", job.SaidOK} { // three probes
		r.restEnds("api:x")
		if n := r.letIn("api:x"); n != 1 {
			r.t.Fatalf("%d probes, want one", n)
		}
		if n := r.letIn("api:x"); n != 0 {
			r.t.Errorf("%d are let in beside the probe", n)
		}
		probe, in := r.asks(f, r.take(f, 5), "api:x")
		equal(r.t, "the probe", in, names[4+i:5+i])
		end := r.ends(probe[0], said)
		r.settle(f, end)
		told := "[]"
		switch said {
		case job.SaidFailed:
			told = "[{api:x false true}]"
		case job.SaidOK:
			told = "[{api:x true false}]"
		}
		var got []string
		for _, j := range end.Effects.Breakers {
			got = append(got, fmt.Sprintf("{%s %v %v}", j.Rule, j.Closed, j.Again))
		}
		if fmt.Sprint(got) != told {
			r.t.Errorf("told %v, want %s", got, told)
		}
	}
	last, in := r.asks(f, r.take(f, 5), "api:x")
	equal(r.t, "let in behind the probe", in, names[7:8])
	r.settle(f, r.ends(last[0], job.SaidOK))
	if n := r.rdb.Exists(r.ctx, keys.Rest(r.base(), "api:x"), keys.Rest(r.base(), "api:y")).Val(); n != 0 {
		r.t.Errorf("%d keys of closed breakers are left", n)
	}
	r.close(f)
}

// breakerAlone: a limit may have a breaker and no bound.
func breakerAlone(r *rig) {
	r.limit("api", "1000 0 breaker 1 100")
	names := r.push("a", 40)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 40)
	moves, in := r.asks(f, u[:20], "api")
	equal(r.t, "let in", in, names[:20])
	equal(r.t, "slots", r.slots("api"), nil)
	r.settle(f, r.ends(moves[0], job.SaidFailed))
	_, in = r.asks(f, u[20:], "api")
	equal(r.t, "let in while it rests", in, nil)
	r.settle(f, r.ends(moves[1], job.SaidOK), r.ends(moves[2], job.SaidFailed)) // began before: they tell nothing
	for _, m := range moves[3:] {
		r.settle(f, r.ends(m, ""))
	}
	r.restEnds("api")
	if n := r.letIn("api"); n != 1 {
		r.t.Errorf("%d are let in, want the probe", n)
	}
	probe, in := r.asks(f, r.take(f, 1), "api")
	equal(r.t, "the probe", in, names[20:21])
	r.settle(f, r.ends(probe[0], job.SaidOK))
	for at := 21; at < 40; {
		some, in := r.asks(f, r.take(f, 40), "api")
		if len(in) == 0 {
			r.t.Fatalf("no more than %d are let in", at)
		}
		equal(r.t, "let in", in, names[at:at+len(in)])
		at += len(in)
		for _, m := range some {
			r.settle(f, r.ends(m, job.SaidOK))
		}
	}
	if n := r.rdb.Exists(r.ctx, keys.Rate(r.base(), "api"), keys.Rest(r.base(), "api"), keys.Held(r.base(), "api")).Val(); n != 0 {
		r.t.Errorf("%d keys are left", n)
	}
	r.close(f)
}

// brokenBefore: a job that was let in and has not started yet is held when the breaker opens meanwhile, and has no slot then. One that runs
// keeps its own.
func brokenBefore(r *rig) {
	r.limit("api", "2 breaker 1 100")
	r.limit("wide", "9")
	names := r.push("a", 4)
	f := r.fetcher(fetch.Strict{"a"})
	moves, _ := r.asks(f, r.take(f, 4), "wide", "api")
	r.settle(f, r.ends(moves[0], "", job.SaidOK))
	equal(r.t, "slots", r.slots("api"), names[1:3])
	r.settle(f, r.ends(moves[1], "", job.SaidFailed))
	harness.Equal(r.t, "queue", len(r.queued("a")), 1) // the third was let in by the first
	_, in := r.asks(f, r.take(f, 1), "wide", "api")
	equal(r.t, "let in while it rests", in, nil)
	equal(r.t, "held", r.held("api"), names[2:])
	equal(r.t, "slots", append(r.slots("api"), r.slots("wide")...), nil)
	n, err := job.Release(r.ctx, r.rdb, r.base(), "api", 1, false)
	r.must("release", err)
	harness.Equal(r.t, "released", n, 1)
	forced, in := r.asks(f, r.take(f, 1), "wide", "api")
	equal(r.t, "let in by force", in, names[2:3])
	again := r.ask(forced[0].Unit, "api")
	again.Effects.Rules.Force = true
	r.must("forget the slot", r.rdb.Del(r.ctx, keys.Slots(r.base(), "api")).Err())
	r.settle(f, again)
	equal(r.t, "slots", r.slots("api"), names[2:3])
	r.settle(f, r.ends(forced[0], "", job.SaidOK)) // which is as good as a probe
	last, in := r.asks(f, r.take(f, 1), "wide", "api")
	equal(r.t, "let in", in, names[3:])
	r.settle(f, r.ends(last[0], "", job.SaidOK))
	r.close(f)
}

// aheadOfBreaker: a job of a rule with a breaker asks as it starts, though it has a slot and has asked ahead: the breaker may have opened.
func aheadOfBreaker(r *rig) {
	r.limit("api", "2 breaker 1 100")
	names := r.push("a", 2)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 2)
	moves, in := r.asks(f, u, "api")
	equal(r.t, "let in", in, names)
	ahead := r.ask(u[1], "api")
	ahead.Effects.Rules.Ahead = true
	r.settle(f, ahead)
	if ahead.Stay.Done || !ahead.Stay.Again {
		r.t.Errorf("asked ahead: %+v, expected that it is to ask again", *ahead.Stay)
	}
	equal(r.t, "slots", r.slots("api"), names)
	r.settle(f, r.ends(moves[0], job.SaidFailed))
	_, in = r.asks(f, u[1:], "api")
	equal(r.t, "let in while it rests", in, nil)
	equal(r.t, "held", r.held("api"), names[1:])
	n, err := job.Release(r.ctx, r.rdb, r.base(), "api", 1, true)
	r.must("release", err)
	harness.Equal(r.t, "released", n, 1)
	r.close(f)
}

// askedRest: a job has its rule rest, and an operator ends that. A limit without a breaker does not rest.
func askedRest(r *rig) {
	r.limit("api", "5 1 breaker 0 100")
	r.limit("plain", "1")
	r.push("a", 2)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 2)
	moves, _ := r.asks(f, u[:1], "api", "plain")
	before := time.Now()
	end := r.ends(moves[0], job.SaidRest(30*time.Second), job.SaidRest(time.Minute))
	r.settle(f, end)
	if j := end.Effects.Breakers; len(j) != 1 || j[0].Rule != "api" || j[0].Ends.Sub(before) < 20*time.Second || j[0].Ends.Sub(before) > 40*time.Second {
		r.t.Errorf("told %+v", j)
	}
	_, in := r.asks(f, u[1:], "api", "plain")
	equal(r.t, "let in while it rests", in, nil)
	for _, c := range []struct {
		rule string
		d    time.Duration
		want bool
	}{{"plain", time.Minute, false}, {"plain", 0, false}, {"api", time.Hour, true}, {"api", 0, true}, {"api", 0, false}} {
		did, err := job.Rest(r.ctx, r.rdb, r.base(), c.rule, c.d)
		r.must("rest", err)
		harness.Equal(r.t, fmt.Sprintf("rest of %s for %s", c.rule, c.d), did, c.want)
	}
	last, in := r.asks(f, r.take(f, 1), "api", "plain")
	harness.Equal(r.t, "let in", len(in), 1)
	r.settle(f, r.ends(last[0], job.SaidOK, job.SaidOK))
	r.close(f)
}

// deadProbe: a probe whose process dies costs one rest, and runs again as that.
func deadProbe(r *rig) {
	r.limit("api", "2 breaker 1 100")
	names := r.push("a", 3)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 3)
	moves, _ := r.asks(f, u[:1], "api")
	r.settle(f, r.ends(moves[0], job.SaidFailed))
	r.asks(f, u[1:], "api")
	r.restEnds("api")
	harness.Equal(r.t, "probes", r.letIn("api"), 1)
	dying := r.dying("dying", fetch.Strict{"a"})
	_, in := r.asks(dying, r.take(dying, 1), "api")
	equal(r.t, "the probe", in, names[1:2])
	r.rescueUntil("the probe is back", func() bool { return len(r.queued("a")) == 1 })
	harness.Equal(r.t, "probes beside it", r.letIn("api"), 0)
	again, in := r.asks(f, r.take(f, 3), "api")
	equal(r.t, "the probe", in, names[1:2])
	r.restEnds("api")
	harness.Equal(r.t, "probes of the next rest", r.letIn("api"), 1)
	r.settle(f, r.ends(again[0], job.SaidOK)) // of the rest before: it began while the breaker was open
	last, in := r.asks(f, r.take(f, 3), "api")
	equal(r.t, "let in", in, names[2:])
	r.settle(f, r.ends(last[0], job.SaidOK))
	harness.Equal(r.t, "keys of the closed breaker", r.rdb.Exists(r.ctx, keys.Rest(r.base(), "api")).Val(), 0)
	r.close(f)
}
