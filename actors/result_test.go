package actors_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

// Sum is a job with a result.
type Sum struct{ A, B int }

func (Sum) Class() string { return "Sum" }

type total struct{ Sum int }

// A result comes to all who wait for it, before and after the end of the job, by one client and another.
func TestAwait(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	begin := make(chan struct{})
	troupe.HandleResult(&r, func(_ context.Context, job *troupe.Job[Sum]) (total, error) {
		<-begin
		return total{job.Args.A + job.Args.B}, nil
	})
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
	jid := harness.Must(k.Client.Push(ctx, Sum{2, 3}))(t)
	other := client.New(rdb)
	var waiting sync.WaitGroup
	for i := range 20 {
		waiting.Go(func() {
			c := k.Client
			if i%2 == 1 {
				c = other
			}
			if got, err := client.Await[total](ctx, c, jid); err != nil || got.Sum != 5 {
				t.Errorf("waiter %d: %+v, %v", i, got, err)
			}
		})
	}
	close(begin)
	waiting.Wait()
	got := harness.Must(client.Await[total](ctx, other, jid))(t)
	harness.Equal(t, "the result afterwards", got.Sum, 5)
	if _, err := client.Await[int](ctx, other, jid); err == nil || !strings.Contains(err.Error(), "does not fit int") {
		t.Errorf("as another type: %v", err)
	}
	if ttl := rdb.TTL(ctx, "troupe:result:"+jid).Val(); ttl < 50*time.Minute {
		t.Errorf("it is kept for %v", ttl)
	}
}

// What a waiter gets of each end of a run, with the end kept as the push says and with nothing said.
func TestAwaitOfEachEnd(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want string // what the waiter of a job gets whose end is kept
		none string // and of one of which nothing is said; "" is nothing
	}{
		"done":      {nil, `"r"`, `"r"`},
		"dead":      {troupe.Kill(errors.New("no")), "job j is not done, it is dead: error: no", ""},
		"discarded": {troupe.Discard(errors.New("no")), "job j is not done, it is dropped: error: no", ""},
		"failed":    {errors.New("no"), "", ""},
		"parked":    {troupe.Park(time.Hour, errors.New("later")), "", ""},
		"moved":     {troupe.MoveTo("other"), "", ""},
	} {
		for _, kept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, kept %v", name, kept), func(t *testing.T) {
				rdb := testkit.Redis(t)
				var r troupe.Registry
				var ran atomic.Bool
				troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
					defer ran.Store(true)
					harness.Check(t, troupe.SetResult(ctx, "r"))
					return c.err
				}))
				k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
				opts, want := []client.Option{client.JID("j")}, c.none
				if kept {
					opts, want = append(opts, client.KeepResult(time.Minute)), c.want
				}
				k.PushClass("Job", nil, opts...)
				k.Await("the run has ended", func() bool { return k.Settled() && ran.Load() })
				if want == "" {
					harness.Equal(t, "kept ends", rdb.Exists(ctx, "troupe:result:j").Val(), 0)
					return
				}
				got, err := k.Client.Await(ctx, "j")
				text := string(got)
				if err != nil {
					text = strings.TrimPrefix(err.Error(), "await: ")
				}
				harness.Equal(t, "what a waiter gets", text, want)
				if e := new(client.NotDoneError); err != nil && (!errors.As(err, &e) || time.Since(e.At) > time.Minute) {
					t.Errorf("the error is %#v", err)
				}
			})
		}
	}
}

// What SetResult refuses.
func TestSetResultRefuses(t *testing.T) {
	if err := troupe.SetResult(ctx, 1); err == nil || !strings.Contains(err.Error(), "belongs to no job") {
		t.Errorf("outside of a job: %v", err)
	}
	rdb := testkit.Redis(t)
	var r troupe.Registry
	errs := make(chan error, 3)
	var late func() error
	troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		errs <- troupe.SetResult(ctx, make(chan int))
		errs <- troupe.SetResult(ctx, strings.Repeat("x", troupe.MaxResult))
		late = func() error { return troupe.SetResult(ctx, 1) }
		return nil
	}))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
	k.PushClass("Job", nil, client.KeepResult(time.Minute), client.JID("j"))
	got := string(harness.Must(k.Client.Await(ctx, "j"))(t))
	harness.Equal(t, "the result of a job without one", got, "null")
	if err := <-errs; !errors.As(err, new(*troupe.EncodeError)) {
		t.Errorf("a channel: %v", err)
	}
	if err := <-errs; err == nil || !strings.Contains(err.Error(), "65538 bytes of JSON, expected at most 65536 (troupe.MaxResult)") {
		t.Errorf("too many bytes: %v", err)
	}
	if err := late(); err == nil || !strings.Contains(err.Error(), "the run has ended") {
		t.Errorf("after the end: %v", err)
	}
}

// Where results cannot be kept a class that has some is refused at the start, and a handler hears of it.
func TestResultsNeedTheReliableFetcher(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	troupe.HandleResult(&r, func(context.Context, *troupe.Job[Sum]) (int, error) { return 1, nil })
	_, err := actors.New(actors.Config{Redis: rdb, Registry: &r, Capsules: []actors.Capsule{{Fetch: fetch.NewBasic}}})
	if err == nil || !strings.Contains(err.Error(), `cannot keep results`) || !strings.Contains(err.Error(), `class "Sum"`) {
		t.Errorf("a capsule with the basic fetcher: %v", err)
	}
}

// A Redis without memory keeps no result: the job is done, the waiter that is there has the result, and the daemon counts.
func TestAResultWithoutMemory(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	var r troupe.Registry
	end := make(chan struct{})
	troupe.HandleClass(&r, "Job", troupe.HandlerFunc(func(ctx context.Context, _ *troupe.Payload) error {
		<-end
		return troupe.SetResult(ctx, 7)
	}))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
	k.PushClass("Job", nil, client.JID("j"))
	got := make(chan string)
	go func() {
		text, err := k.Client.Await(ctx, "j")
		got <- fmt.Sprint(string(text), err)
	}()
	k.Await("it runs, and is waited for", func() bool {
		return k.Stats().Busy == 1 && rdb.PubSubNumSub(ctx, "troupe:result:j").Val()["troupe:result:j"] == 1
	})
	harness.OK(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	close(end)
	harness.Equal(t, "what the waiter got", <-got, "7<nil>")
	k.Await("it is done", func() bool { return k.Settled() && k.Metrics().Unkept == 1 })
	harness.Equal(t, "kept results", rdb.Exists(ctx, "troupe:result:j").Val(), 0)
	harness.Equal(t, "what is retried", rdb.ZCard(ctx, "retry").Val(), 0)
}
