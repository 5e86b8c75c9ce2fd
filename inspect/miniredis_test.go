package inspect_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
)

// The embedded server of the demo understands all that is asked of it.
func TestOnTheEmbeddedServer(t *testing.T) {
	mr := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mr.Addr()})
	defer rdb.Close()
	i := inspect.New(rdb)
	ctx := t.Context()
	threeVersions(t, rdb)
	fill(t, rdb, "retry", 200)
	add(t, rdb, "dead", someTime, "not a job")
	for n := range 200 {
		push(t, rdb, "a", job(1000+n, "a"))
	}
	n := 0
	for j, err := range i.Queue("a").Each(ctx) {
		harness.OK(t, err)
		if n++; n%2 == 0 {
			harness.Must(j.Delete(ctx))(t)
		}
		if n == 120 { // a shift of several pages
			for k := range 300 {
				push(t, rdb, "a", job(2000+k, "a"))
			}
		}
	}
	harness.Equal(t, "the queue has shown", n, 200)
	harness.Must(i.Queue("a").Clear(ctx))(t)
	e := harness.Must(i.RetrySet.FindJob(ctx, jid(7)))(t)
	if _, err := i.RetrySet.Lookup(ctx, e.Key()); err != nil {
		t.Error(err)
	}
	for _, op := range []func() (inspect.Outcome, error){
		func() (inspect.Outcome, error) { return e.Reschedule(ctx, e.At) },
		func() (inspect.Outcome, error) { return e.Kill(ctx) },
		func() (inspect.Outcome, error) { return harness.Must(i.DeadSet.FindJob(ctx, jid(7)))(t).Retry(ctx) },
	} {
		if got := harness.Must(op())(t); got != inspect.Done {
			t.Errorf("got %v", got)
		}
	}
	if c := harness.Must(i.RetrySet.RetryAll(ctx, inspect.Bulk{}))(t); c.Done != 199 {
		t.Errorf("%+v", c)
	}
	once(t, rdb, 200)
	if s := harness.Must(i.Stats(ctx))(t); s.DeadSize != 1 || s.ProcessesSize != 3 || s.Enqueued != 200 || s.WorkersSize != 5 {
		t.Errorf("%+v", s)
	}
	if set := harness.Must(i.Processes(ctx))(t); len(set) != 3 {
		t.Errorf("%d processes", len(set))
	}
	harness.Must(i.Queues(ctx))(t)
	harness.Must(i.Works(ctx))(t)
	harness.Must(i.Fetchers(ctx))(t)
}
