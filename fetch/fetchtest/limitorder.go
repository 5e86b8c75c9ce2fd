package fetchtest

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
)

// This file is about the order of jobs that several rules hold.

// olderElsewhere: a job that one rule has held does not pass the older ones of another, when both have room again at a time.
func olderElsewhere(r *rig) {
	r.limit("one", "1 breaker 0 100")
	r.limit("two", "1 breaker 0 100")
	names := r.push("a", 4)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 4)
	first, _ := r.asks(f, u[:1], "two")
	r.asks(f, u[1:3], "two")
	for _, rule := range []string{"one", "two"} {
		_, err := job.Rest(r.ctx, r.rdb, r.base(), rule, time.Hour)
		r.must("rest", err)
	}
	r.asks(f, u[3:], "one", "two")
	equal(r.t, "held by one", r.held("one"), names[3:])
	r.settle(f, r.ends(first[0], ""))
	r.restEnds("one")
	r.restEnds("two")
	for _, rule := range []string{"one", "two"} {
		r.must("make it due", r.rdb.ZAdd(r.ctx, keys.HeldRules(r.base()), redis.Z{Score: 1, Member: rule}).Err())
	}
	n, _, err := job.LetIn(r.ctx, r.rdb, r.base(), 100)
	r.must("let in", err)
	harness.Equal(r.t, "let in", n, 1)
	equal(r.t, "let in", r.queued("a"), names[1:2])
	equal(r.t, "held by two", r.held("two"), names[2:])
	for i := 1; i < 4; i++ {
		rules := []string{"two"}
		if i == 3 {
			rules = []string{"one", "two"}
		}
		next, in := r.asks(f, r.take(f, 1), rules...)
		equal(r.t, "let in behind it", in, names[i:i+1])
		r.settle(f, r.ends(next[0], []string{job.SaidOK, job.SaidOK}[:len(rules)]...))
	}
	r.close(f)
}

// olderFirst: room that comes to two rules at a time is for the oldest job of both, whichever rule holds it.
func olderFirst(r *rig) {
	r.limit("one", "1")
	r.limit("two", "1")
	names := r.push("a", 4)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 4)
	first, _ := r.asks(f, u[:1], "one", "two")
	r.asks(f, u[1:2], "two", "one")
	r.asks(f, u[2:3], "one", "two")
	r.asks(f, u[3:], "one")
	equal(r.t, "held by one", r.held("one"), names[2:])
	equal(r.t, "held by two", r.held("two"), names[1:2])
	r.settle(f, r.leaving(first[0]))
	equal(r.t, "let in", r.queued("a"), names[1:2])
	equal(r.t, "held by one", r.held("one"), names[2:])
	equal(r.t, "has a slot of one", r.slots("one"), names[1:2])
	r.close(f)
}

// olderOnce: a job is let in once where two rules hold older ones of each other.
func olderOnce(r *rig) {
	r.limit("wide", "2")
	r.limit("narrow", "1")
	names := r.push("a", 5)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 5)
	first, _ := r.asks(f, u[:1], "wide")
	second, _ := r.asks(f, u[1:2], "wide", "narrow")
	r.asks(f, u[2:3], "wide")
	r.asks(f, u[3:4], "narrow", "wide")
	r.asks(f, u[4:], "wide", "narrow")
	r.settle(f, r.leaving(first[0]), r.leaving(second[0]))
	equal(r.t, "let in", r.queued("a"), []string{names[3], names[2]})
	equal(r.t, "held", append(r.held("narrow"), r.held("wide")...), names[4:])
	r.close(f)
}

// olderBlocked: a job that waits for an older one of another rule comes in when that finds no room in a third; nobody passes it.
func olderBlocked(r *rig) {
	for _, rule := range []string{"one", "two", "third"} {
		r.limit(rule, "1")
	}
	names := r.push("a", 5)
	f := r.fetcher(fetch.Strict{"a"})
	u := r.take(f, 5)
	first, _ := r.asks(f, u[:1], "one", "two")
	third, _ := r.asks(f, u[1:2], "third")
	r.asks(f, u[2:3], "two", "third")
	r.asks(f, u[3:4], "one", "two")
	r.asks(f, u[4:], "one")
	r.settle(f, r.leaving(first[0]))
	equal(r.t, "let in", r.queued("a"), names[3:4])
	equal(r.t, "held by one", r.held("one"), names[4:])
	equal(r.t, "held by two", r.held("two"), nil)
	equal(r.t, "held by the third", r.held("third"), names[2:3])
	r.settle(f, r.leaving(third[0]))
	r.close(f)
}
