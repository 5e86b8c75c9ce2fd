package fetch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Changes at the same time follow each other: no queue takes the number of another.
func TestQueuesChangeOneAfterTheOther(t *testing.T) {
	rdb, _ := redistest.New(t)
	opt := *rdb.Options()
	opt.MaxRetries = -1
	own := redis.NewClient(&opt)
	defer own.Close()
	f := harness.Must(fetch.NewReliable(fetch.Env{Redis: own, Identity: "h:1:aa", Capsule: "default", Queues: fetch.Strict{"q0"}}))(t)
	ctx := t.Context()
	harness.OK(t, f.Open(ctx))
	var all sync.WaitGroup
	var names fetch.Strict
	for i := range 20 {
		name := fmt.Sprint("q", i)
		names = append(names, name)
		rdb.LPush(ctx, "queue:"+name, name)
		all.Go(func() {
			if err := f.(fetch.QueueSetter).SetQueues(ctx, fetch.Strict{name}); err != nil { //nolint:forcetypeassert // it is
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := f.(fetch.QueueSetter).SetQueues(ctx, names); err != nil { //nolint:forcetypeassert // it is
		t.Fatal(err)
	}
	units, err := f.Take(ctx, 100, nil)
	if err != nil || len(units) != 20 {
		t.Fatalf("took %d, %v", len(units), err)
	}
	for _, u := range units {
		if u.Queue != string(u.Payload) {
			t.Errorf("a job of %s is said to be of %s", u.Payload, u.Queue)
		}
	}
	if left, err := f.Close(ctx); err != nil || left != 20 {
		t.Errorf("closed with %d, %v", left, err)
	}
}

// A fetcher in use gets other queues: what it has stays its own, what a push brings to a new
// queue wakes it, and nothing is taken from one that it has left.
func TestQueuesOfAFetcherChange(t *testing.T) {
	for name, factory := range map[string]fetch.Factory{"reliable": fetch.NewReliable, "basic": fetch.NewBasic} {
		t.Run(name, func(t *testing.T) {
			rdb, _ := redistest.New(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			push := func(queue, job string) {
				t.Helper()
				harness.OK(t, rdb.LPush(ctx, "queue:"+queue, job).Err())
			}
			opt := *rdb.Options()
			opt.MaxRetries = -1
			own := redis.NewClient(&opt)
			defer own.Close()
			f := harness.Must(factory(fetch.Env{Redis: own, Identity: "h:1:aa", Capsule: "default", Queues: fetch.Strict{"a", "b"}}))(t)
			harness.OK(t, f.Open(ctx))
			take := func(n int, acks ...fetch.Unit) string {
				t.Helper()
				units := harness.Must(f.Take(ctx, n, acks))(t)
				var got []string
				for _, u := range units {
					got = append(got, u.Queue+":"+string(u.Payload))
				}
				return strings.Join(got, " ")
			}
			waited := func() string {
				t.Helper()
				for ctx.Err() == nil {
					harness.OK(t, f.Wait(ctx, time.Second))
					if got := take(5); got != "" {
						return got
					}
				}
				return "nothing"
			}
			push("a", "1")
			if got := waited(); got != "a:1" {
				t.Fatalf("took %s, expected a:1", got)
			}
			change := func(q fetch.Queues) {
				t.Helper()
				if err := f.(fetch.QueueSetter).SetQueues(ctx, q); err != nil { //nolint:forcetypeassert // both are
					t.Fatal(err)
				}
			}
			change(fetch.Weighted{"b": 1, "c": 5})
			push("a", "2")
			push("c", "3")
			harness.Equal(t, "took, expected c:3", waited(), "c:3")
			push("b", "4")
			harness.Equal(t, "took, expected b:4", waited(), "b:4")
			change(fetch.Strict{"a"})
			harness.Equal(t, "took, expected a:2", waited(), "a:2")
			change(fetch.Strict{"c", "a"})
			push("c", "5")
			harness.Equal(t, "took, expected c:5", waited(), "c:5")
			if err := f.(fetch.QueueSetter).SetQueues(ctx, fetch.Strict{""}); err == nil { //nolint:forcetypeassert // both are
				t.Error("a queue without a name is taken")
			}
			if !f.Durable() {
				return
			}
			var registered struct{ Queues []string }
			if err := json.Unmarshal([]byte(rdb.HGet(ctx, "troupe:places", "h:1:aa#default.1").Val()), &registered); err != nil || fmt.Sprint(registered.Queues) != "[a b c]" {
				t.Errorf("registered are %v, %v", registered.Queues, err)
			}
			if left, err := f.Close(ctx); err != nil || left != 5 {
				t.Errorf("closed with %d jobs in progress, %v", left, err)
			}
		})
	}
}
