package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit/chaos"
)

// The classes of jobs.
const (
	class        = "Chaos"
	limitedClass = "ChaosLimited"
	ratedClass   = "ChaosRated"
	brokenClass  = "ChaosBroken"
)

// args are those of a job.
type args struct {
	Task Task `arg:"0"`
}

// Class is that of the limits of the job.
func (a args) Class() string {
	switch {
	case broken(a.Task.N):
		return brokenClass
	case a.Task.Limit == 0:
		return class
	case rated(a.Task.N):
		return ratedClass
	}
	return limitedClass
}

// Troupe is this module's daemon. Apart from the lease and shorter waits, so that
// a run takes minutes, all is as by default.
func Troupe() System {
	return System{Name: "troupe", Work: workTroupe, Push: pushTroupe, Left: leftTroupe, Final: "dead", Fences: fencesTroupe, Effects: true, Locks: locksTroupe, Ask: askTroupe, Slots: slotsTroupe}
}

func workTroupe(w *Worker) int {
	zerolog.TimeFieldFormat = time.RFC3339Nano
	var jobs troupe.Registry
	byKey := troupe.Limit{Name: "key", AtOnce: limitMost, By: "0.limit"}
	limits := map[string][]troupe.Limit{
		class: nil, limitedClass: {byKey},
		ratedClass:  {{Name: "rate", Rate: w.Rate, Burst: rateBurst}, byKey},
		brokenClass: {{Name: "breaker", Breaker: &troupe.Breaker{Failures: 1, Rest: breakerRest}}},
	}
	handler := troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
		var tasks []Task
		if err := json.Unmarshal(p.Args(), &tasks); err != nil || len(tasks) != 1 {
			return troupe.Kill(err)
		}
		for i := 0; tasks[0].pushes() && i < children; i++ {
			t := Task{N: child(tasks[0].N, i), Run: time.Now().UnixNano(), Takes: 5 * time.Millisecond}
			if i == 1 {
				t.Key = t.N
			}
			if _, err := client.Within(ctx).PushClass(ctx, class, []any{t}, unique(t)...); err != nil {
				return err
			}
		}
		if tasks[0].batches() {
			if err := pushBatches(ctx, tasks[0].N); err != nil {
				return err
			}
		}
		return w.Perform(ctx, tasks[0], p.Failures() == 0)
	})
	for name, of := range limits {
		troupe.HandleClass(&jobs, name, handler, troupe.Options{Limits: of, RetryIn: func(int, error, *troupe.Payload) troupe.Delay {
			return troupe.Delay(rand.N(time.Second))
		}})
	}
	return actors.Main(actors.Config{
		Redis: redis.NewClient(&redis.Options{Addr: w.Redis}), Registry: &jobs,
		Logger: zerolog.New(os.Stderr).Level(zerolog.WarnLevel).With().Timestamp().Logger(),
		Lease:  Lease, Timeout: 2 * time.Second, PollInterval: time.Second, HeartbeatInterval: 3 * time.Second,
		Capsules: []actors.Capsule{{Concurrency: Concurrency}},
		Subscribers: []func(event.Event){func(e event.Event) {
			if held, ok := e.(event.JobHeld); ok {
				if n, err := strconv.Atoi(held.Job.JID); err == nil {
					w.write('h', n, held.At.UnixNano())
				}
			}
		}},
	})
}

func pushTroupe(rdb *redis.Client) func(context.Context, Task) error {
	c := client.New(rdb)
	return func(ctx context.Context, t Task) error {
		if t.Links == 0 {
			_, err := c.PushClass(ctx, args{t}.Class(), []any{t}, named(t)...)
			return err
		}
		chain := []client.Item{client.Job(args{t}, named(t)...)}
		for i := range t.Links {
			chain = append(chain, client.Job(args{Task{N: link(t.N, i), Takes: 5 * time.Millisecond}}))
		}
		_, err := c.PushChain(ctx, chain...)
		return err
	}
}

// named are the options of the push of a job that is not another one's: its jid is its number.
func named(t Task) []client.Option {
	return append(unique(t), client.JID(fmt.Sprintf("%024d", t.N)))
}

// unique are the options of the push of a job that is.
func unique(t Task) []client.Option {
	if t.Key == 0 {
		return nil
	}
	return []client.Option{client.Unique(troupe.Unique{By: []string{"0.key"}})}
}

func locksTroupe(ctx context.Context, rdb *redis.Client) (locks []string, err error) {
	for scan := rdb.Scan(ctx, 0, keys.LockPrefix+"*", 1000).Iterator(); scan.Next(ctx); err = scan.Err() {
		locks = append(locks, scan.Val())
	}
	return locks, err
}

// askTroupe does what a push does that the lock refuses.
func askTroupe(ctx context.Context, rdb *redis.Client, lock string) error {
	holder, err := rdb.Get(ctx, lock).Result()
	if err == nil {
		err = rdb.HSet(ctx, keys.Conflicts, lock, holder).Err()
	}
	if errors.Is(err, redis.Nil) { // it was freed meanwhile
		return nil
	}
	return err
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
	if err := eachHeld(ctx, rdb, add); err != nil {
		return nil, err
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
	return left, eachHeld(ctx, rdb, func(place string, jobs []string) { // some were held meanwhile
		before := maps.Clone(left)
		if add(place, jobs); len(before) > 0 {
			maps.Copy(left, before)
		}
	})
}

// eachHeld calls a function with the jobs that each rule holds.
func eachHeld(ctx context.Context, rdb *redis.Client, each func(place string, jobs []string)) error {
	rules, err := rdb.Keys(ctx, keys.Held(keys.LimitBase("", false), "*")).Result()
	for _, rule := range rules {
		members, err := rdb.ZRange(ctx, rule, 0, -1).Result()
		if err != nil {
			return err
		}
		for i := range members {
			_, members[i], _ = strings.Cut(members[i], "\n")
		}
		each("held", members)
	}
	return err
}

// slotsTroupe are the slots that have not ended, and what holds jobs.
func slotsTroupe(ctx context.Context, rdb *redis.Client) (all []string, err error) {
	base := keys.LimitBase("", false)
	rules, err := rdb.Keys(ctx, keys.Slots(base, "*")).Result()
	if err != nil {
		return nil, err
	}
	for _, rule := range rules {
		live, err := rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: rule, ByScore: true, Start: strconv.FormatInt(time.Now().Unix(), 10), Stop: "+inf"}).Result()
		if err != nil {
			return nil, err
		}
		for _, jid := range live {
			all = append(all, rule+" "+jid)
		}
	}
	held, err := rdb.Keys(ctx, keys.HeldRules(base)+"*").Result()
	return append(all, held...), err
}

func fencesTroupe(p *chaos.Process) (at []time.Time) {
	for _, line := range p.Logged("fenced: this process was taken for dead and its jobs were put back by another") {
		if when, err := time.Parse(time.RFC3339Nano, harness.Str(line, "time")); err == nil {
			at = append(at, when)
		}
	}
	return at
}
