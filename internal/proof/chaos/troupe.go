package chaos

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit/chaos"
)

const class = "Chaos"

// Troupe is this module's daemon. Apart from the lease and shorter waits, so that
// a run takes minutes, all is as by default.
func Troupe() System {
	return System{Name: "troupe", Work: workTroupe, Push: pushTroupe, Left: leftTroupe, Final: "dead", Fences: fencesTroupe}
}

func workTroupe(w *Worker) int {
	zerolog.TimeFieldFormat = time.RFC3339Nano
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, class, troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		var args []Task
		if err := json.Unmarshal(p.Args(), &args); err != nil || len(args) != 1 {
			return troupe.Kill(err)
		}
		return w.Perform(ctx, args[0], p.Failures() == 0)
	}), troupe.Options{RetryIn: func(int, error, *troupe.Payload) troupe.Delay {
		return troupe.Delay(rand.N(time.Second))
	}})
	return actors.Main(actors.Config{
		Redis: redis.NewClient(&redis.Options{Addr: w.Redis}), Registry: &jobs,
		Logger: zerolog.New(os.Stderr).Level(zerolog.WarnLevel).With().Timestamp().Logger(),
		Lease:  Lease, Timeout: 2 * time.Second, PollInterval: time.Second,
		Capsules: []actors.Capsule{{Concurrency: Concurrency}},
	})
}

func pushTroupe(rdb *redis.Client) func(context.Context, Task) error {
	c := client.New(rdb)
	return func(ctx context.Context, t Task) error {
		_, err := c.PushClass(ctx, class, []any{t})
		return err
	}
}

// leftTroupe reads every place of a job, as chaos.TakeInventory does, by number.
func leftTroupe(ctx context.Context, rdb *redis.Client) (map[int]string, error) {
	left := map[int]string{}
	add := func(place string, jobs []string) {
		for _, job := range jobs {
			var p struct{ Args []Task }
			if json.Unmarshal([]byte(job), &p) == nil && len(p.Args) == 1 {
				left[p.Args[0].N] = strings.TrimPrefix(left[p.Args[0].N]+" and "+place, " and ")
			}
		}
	}
	queues, err := rdb.SMembers(ctx, "queues").Result()
	if err != nil {
		return nil, err
	}
	for _, q := range queues {
		jobs, err := rdb.LRange(ctx, "queue:"+q, 0, -1).Result()
		if err != nil {
			return nil, err
		}
		add("queue "+q, jobs)
	}
	for _, set := range []string{"retry", "schedule", "dead"} {
		jobs, err := rdb.ZRange(ctx, set, 0, -1).Result()
		if err != nil {
			return nil, err
		}
		add(set, jobs)
	}
	lists, err := redistest.InProgress(ctx, rdb)
	if err != nil {
		return nil, err
	}
	for _, jobs := range lists {
		add("in progress", jobs)
	}
	return left, nil
}

func fencesTroupe(p *chaos.Process) (at []time.Time) {
	for _, line := range p.Logged("fenced: this process was taken for dead and its jobs were put back by another") {
		if when, err := time.Parse(time.RFC3339Nano, harness.Str(line, "time")); err == nil {
			at = append(at, when)
		}
	}
	return at
}
