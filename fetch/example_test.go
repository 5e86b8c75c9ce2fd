package fetch_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
)

// The three orders of queues: strict, by chance, and as a file of Sidekiq has them.
func ExampleQueues() {
	for _, q := range []fetch.Queues{
		fetch.Strict{"critical", "default"},
		fetch.Weighted{"default": 1, "critical": 3},
		fetch.WeightedList([]fetch.QueueWeight{{Queue: "critical", Weight: 3}, {Queue: "default", Weight: 1}}),
	} {
		list := q.List()
		fmt.Println(list.Mode(), list.Names(), list.Weights())
	}
	// Output:
	// strict [critical default] map[critical:0 default:0]
	// weighted [critical default] map[critical:3 default:1]
	// weighted [critical default] map[critical:3 default:1]
}

// A fetcher for actors.Capsule.Fetch: the default one where jobs must not be lost, Sidekiq's own where they may.
func ExampleNewReliable() {
	choose := func(mayLose bool) fetch.Factory {
		if mayLose {
			return fetch.NewBasic
		}
		return fetch.NewReliable
	}
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	for _, mayLose := range []bool{false, true} {
		f, err := choose(mayLose)(fetch.Env{Redis: rdb, Identity: "host:1:abc", Capsule: "default", Queues: fetch.Strict{"default"}})
		if err != nil {
			panic(err)
		}
		fmt.Println(f.Durable())
	}
	// Output:
	// true
	// false
}
