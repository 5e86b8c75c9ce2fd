package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// fill adds n failed jobs, three to a score and two to a queue.
func fill(t *testing.T, rdb *redis.Client, set string, n int) {
	t.Helper()
	for k := range n {
		add(t, rdb, set, float64(k/3), failed(k, []string{"a", "b"}[k/2%2], 0))
	}
}

// once checks that each of n jobs is exactly once in the queues.
func once(t *testing.T, rdb *redis.Client, n int) {
	t.Helper()
	got := append(jids(t, rdb, "a"), jids(t, rdb, "b")...)
	slices.Sort(got)
	want := make([]string, n)
	for k := range want {
		want[k] = jid(k)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d jobs in the queues, %d different ones, want %d", len(got), len(slices.Compact(got)), n)
	}
}

// together runs fn n times at once.
func together(n int, fn func(k int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for k := range n {
		wg.Go(func() { <-gate; fn(k) })
	}
	close(gate)
	wg.Wait()
}

func TestTwoOperatorsRetryAll(t *testing.T) {
	i, rdb, url := start(t)
	const jobs = 2000
	fill(t, rdb, "retry", jobs)
	other := redis.NewClient(harness.Must(redis.ParseURL(url))(t))
	defer other.Close()
	operators := []*inspect.Inspector{i, inspect.New(other)}
	var counts [2]inspect.Counts
	var errs [2]error
	together(2, func(k int) { counts[k], errs[k] = operators[k].RetrySet.RetryAll(t.Context(), inspect.Bulk{}) })
	harness.OK(t, errors.Join(errs[:]...))
	if counts[0].Done+counts[1].Done != jobs || rdb.Exists(t.Context(), "retry").Val() != 0 {
		t.Errorf("got %+v", counts)
	}
	once(t, rdb, jobs)
}

// Operators, single retries and kills, and the poller work on one set; each
// job ends up in one place, and all that say Done add up to them.
func TestOperationsRaceThePoller(t *testing.T) {
	i, rdb, url := start(t)
	const jobs = 2000
	fill(t, rdb, "retry", jobs)
	mine := func() *redis.Client {
		c := redis.NewClient(harness.Must(redis.ParseURL(url))(t))
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	var done [5]int
	single := func(i *inspect.Inspector, op func(*inspect.SortedEntry) (inspect.Outcome, error)) (n int) {
		for e, err := range i.RetrySet.Each(t.Context()) {
			if err != nil {
				t.Error(err)
				return n
			}
			outcome, err := op(e)
			harness.Check(t, err)
			if outcome == inspect.Done {
				n++
			}
		}
		return n
	}
	clients := []*redis.Client{mine(), mine(), mine(), mine(), mine()}
	together(5, func(k int) {
		i := inspect.New(clients[k])
		switch k {
		case 0:
			k := testkit.Start(t, actors.Config{
				Redis: clients[0], Registry: new(troupe.Registry), Logger: zerolog.Nop(), Capsules: []actors.Capsule{{Queues: fetch.Strict{"none"}}},
			})
			k.Await("the set is empty", func() bool { return rdb.Exists(t.Context(), "retry").Val() == 0 })
		case 1:
			c, err := i.RetrySet.RetryAll(t.Context(), inspect.Bulk{})
			harness.Check(t, err)
			done[k] = c.Done
		case 2:
			done[k] = single(i, func(e *inspect.SortedEntry) (inspect.Outcome, error) { return e.Retry(t.Context()) })
		case 3:
			done[k] = single(i, func(e *inspect.SortedEntry) (inspect.Outcome, error) { return e.AddToQueue(t.Context()) })
		case 4:
			done[k] = single(i, func(e *inspect.SortedEntry) (inspect.Outcome, error) { return e.Kill(t.Context()) })
		}
	})
	sum := 0
	for _, n := range done {
		sum += n
	}
	dead := int(rdb.ZCard(t.Context(), "dead").Val())
	if sum > jobs || dead != done[4] { // the poller has moved the others
		t.Errorf("done %v, %d in all; %d are dead", done, sum, dead)
	}
	if c := harness.Must(i.DeadSet.RetryAll(t.Context(), inspect.Bulk{}))(t); c.Done != dead {
		t.Errorf("got %+v, want %d done", c, dead)
	}
	once(t, rdb, jobs)
}

func TestRetryAllPassesOverWhatCannotMove(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb, client.WithMiddleware(func(next client.PushFunc) client.PushFunc {
		return func(ctx context.Context, p *troupe.Payload) error {
			switch p.Class() {
			case "Stopped":
				return client.ErrStopped
			case "Fails":
				return errors.New("boom")
			}
			return next(ctx, p)
		}
	}))
	i := inspect.New(rdb)
	i.Client = c
	harness.OK(t, rdb.Set(t.Context(), "queue:broken", "x", 0).Err())
	fill(t, rdb, "dead", 200)
	var left []string
	for n := range 130 { // more than two pages of them, with one score
		left = append(left, fmt.Sprintf("not a job %d", n))
	}
	left = append(left, `{"class":"Fails","args":[]}`, `{"class":"X","args":[],"queue":""}`, `{"class":"X","args":[],"queue":"broken"}`)
	add(t, rdb, "dead", 30, left...)
	add(t, rdb, "dead", 30, `{"class":"Stopped","args":[1]}`, `{"class":"Stopped","args":[2]}`)
	got := harness.Must(i.DeadSet.RetryAll(t.Context(), inspect.Bulk{}))(t)
	if got.Fault == nil {
		t.Error("no fault")
	}
	if got.Fault = nil; got != (inspect.Counts{Done: 200, Stopped: 2, Left: len(left)}) {
		t.Errorf("got %+v", got)
	}
	once(t, rdb, 200)
	stayed := rdb.ZRange(t.Context(), "dead", 0, -1).Val()
	if slices.Sort(left); !slices.Equal(stayed, left) {
		t.Errorf("stayed %d: %v", len(stayed), stayed)
	}
}

func TestRetryAllRunsTheHighestScoreFirst(t *testing.T) {
	i, rdb, _ := start(t)
	for n := range 120 {
		add(t, rdb, "retry", float64(n), failed(n, "a", 0))
	}
	harness.Must(i.RetrySet.RetryAll(t.Context(), inspect.Bulk{}))(t)
	got := jids(t, rdb, "a") // newest first: what runs last
	if !slices.IsSorted(got) || len(got) != 120 {
		t.Errorf("the queue holds %v", got)
	}
}

func TestKillAllAndDeleteAll(t *testing.T) {
	i, rdb, _ := start(t)
	const jobs = 333
	fill(t, rdb, "retry", jobs)
	add(t, rdb, "retry", 7, "not a job")
	odd := inspect.Bulk{Where: func(e *inspect.SortedEntry) bool { return e.Err == nil && e.Queue == "b" }}
	var followed []string
	follow := inspect.Bulk{Where: odd.Where, Follow: func(e *inspect.SortedEntry) { followed = append(followed, e.Raw) }}
	inB := 0
	for k := range jobs {
		inB += k / 2 % 2
	}

	if c := harness.Must(i.RetrySet.KillAll(t.Context(), follow))(t); c != (inspect.Counts{Done: inB}) {
		t.Errorf("got %+v, want %d", c, inB)
	}
	dead := rdb.ZRange(t.Context(), "dead", 0, -1).Val()
	slices.Sort(dead)
	slices.Sort(followed)
	if !slices.Equal(dead, followed) || len(dead) != inB {
		t.Errorf("%d are dead, %d were followed", len(dead), len(followed))
	}
	if c := harness.Must(i.RetrySet.DeleteAll(t.Context(), odd))(t); c != (inspect.Counts{}) {
		t.Errorf("got %+v", c)
	}
	if c := harness.Must(i.RetrySet.DeleteAll(t.Context(), inspect.Bulk{}))(t); c != (inspect.Counts{Done: jobs + 1 - inB}) {
		t.Errorf("got %+v", c)
	}
	if c := harness.Must(i.DeadSet.KillAll(t.Context(), inspect.Bulk{}))(t); c != (inspect.Counts{Done: inB}) || int(rdb.ZCard(t.Context(), "dead").Val()) != inB {
		t.Errorf("killing the dead: %+v", c)
	}
}

func TestTwoOperatorsKillAndDeleteAll(t *testing.T) {
	i, rdb, _ := start(t)
	const jobs = 1000
	fill(t, rdb, "retry", jobs)
	var counts [4]inspect.Counts
	together(4, func(k int) {
		var err error
		if k%2 == 0 {
			counts[k], err = i.RetrySet.KillAll(t.Context(), inspect.Bulk{})
		} else {
			counts[k], err = i.RetrySet.DeleteAll(t.Context(), inspect.Bulk{})
		}
		harness.Check(t, err)
	})
	killed := counts[0].Done + counts[2].Done
	if sum := killed + counts[1].Done + counts[3].Done; sum != jobs || int(rdb.ZCard(t.Context(), "dead").Val()) != killed {
		t.Errorf("got %+v", counts)
	}
}

func TestAPanicOfTheCallersDoesNotEndTheWork(t *testing.T) {
	i, rdb, _ := start(t)
	fill(t, rdb, "retry", 120)
	calls := 0
	c, err := i.RetrySet.KillAll(t.Context(), inspect.Bulk{Follow: func(*inspect.SortedEntry) { calls++; panic("boom") }})
	if !errors.As(err, new(*troupe.PanicError)) || c.Done != 120 || calls != 120 {
		t.Errorf("%+v, %d calls, %v", c, calls, err)
	}
	c, err = i.DeadSet.DeleteAll(t.Context(), inspect.Bulk{Where: func(*inspect.SortedEntry) bool { panic("boom") }})
	if !errors.As(err, new(*troupe.PanicError)) || c != (inspect.Counts{}) || rdb.ZCard(t.Context(), "dead").Val() != 120 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestACancelledContextEndsAnOperation(t *testing.T) {
	i, rdb, _ := start(t)
	fill(t, rdb, "retry", 300)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, err := i.RetrySet.RetryAll(ctx, inspect.Bulk{Follow: func(*inspect.SortedEntry) { cancel() }})
	left := int(rdb.ZCard(t.Context(), "retry").Val())
	if !errors.Is(err, context.Canceled) || c.Done == 0 || c.Done+left != 300 || left == 0 {
		t.Errorf("%+v, %d left, %v", c, left, err)
	}
}

// A server that refuses writes is an error, not a set full of faulty jobs.
func TestRetryAllWithoutMemory(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer rdb.Close()
	fill(t, rdb, "retry", 120)
	harness.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	c, err := inspect.New(rdb).RetrySet.RetryAll(t.Context(), inspect.Bulk{})
	if err == nil || c.Done+c.Left != 0 || rdb.ZCard(t.Context(), "retry").Val() != 120 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := inspect.New(rdb).RetrySet.KillAll(t.Context(), inspect.Bulk{}); err == nil || rdb.ZCard(t.Context(), "retry").Val() != 120 {
		t.Errorf("kill: %v", err)
	}
	harness.OK(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	if c := harness.Must(inspect.New(rdb).RetrySet.RetryAll(t.Context(), inspect.Bulk{}))(t); c.Done != 120 {
		t.Errorf("%+v", c)
	}
	once(t, rdb, 120)
}
