package contender

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
)

// sidekiqFormat is Sidekiq's own lists, filled by troupe's client.
var sidekiqFormat = Format{Name: "sidekiq", Fill: fillSidekiq, Left: leftSidekiq, Failed: failedSidekiq}

// private is the in-progress list of the loop over BLMOVE.
const private = "bench:private:"

func (l Load) tasks(first, n int) iter.Seq[Task] {
	pad := strings.Repeat("x", l.Pad)
	return func(yield func(Task) bool) {
		for i := first; i < first+n; i++ {
			if !yield(Task{Index: int64(i), Pad: pad, Fan: int64(l.Fan), Sleep: l.Sleep}) {
				return
			}
		}
	}
}

// share is the part of the jobs that queue i of n gets.
func (l Load) share(i int) (first, n int) {
	k := len(l.Queues)
	first = i * l.Jobs / k
	return first, (i+1)*l.Jobs/k - first
}

func fillSidekiq(ctx context.Context, st Store, l Load) error {
	c := client.New(st.Redis)
	size := max(1, min(1000, (4<<20)/(l.Pad+200))) // 4 MB a call
	for i, queue := range l.Queues {
		opts := []client.Option{client.Queue(queue), client.BatchSize(size)}
		if l.Due || l.Waiting {
			opts = append(opts, client.At(time.Now().Add(365*24*time.Hour)))
		}
		if _, err := client.PushBulk(ctx, c, l.tasks(l.share(i)), opts...); err != nil {
			return err
		}
	}
	if l.Due {
		return st.makeDue(ctx, "schedule")
	}
	return nil
}

// makeDue halves the scores of a set of times: all of them are past then.
func (st Store) makeDue(ctx context.Context, key string) error {
	return st.Redis.ZUnionStore(ctx, key, &redis.ZStore{Keys: []string{key}, Weights: []float64{0.5}}).Err()
}

func leftSidekiq(ctx context.Context, st Store) (left int64, err error) {
	queues, err := st.Redis.SMembers(ctx, "queues").Result()
	if err != nil {
		return 0, err
	}
	for _, q := range queues {
		n, err := st.Redis.LLen(ctx, "queue:"+q).Result()
		if err != nil {
			return 0, err
		}
		left += n
	}
	claims, err := st.Redis.Keys(ctx, "troupe:claim:*").Result()
	if err != nil {
		return 0, err
	}
	for _, key := range claims {
		n, err := st.Redis.LLen(ctx, key).Result()
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // of a list that is closed
			return 0, err
		}
		left += n
	}
	lists, err := st.Redis.Keys(ctx, private+"*").Result()
	return left + int64(len(lists)), err
}

func failedSidekiq(ctx context.Context, st Store) (int64, error) {
	return st.Redis.ZCard(ctx, "retry").Result()
}
