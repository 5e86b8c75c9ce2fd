package client_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit/chaos"
)

// scheduled is the one job of the schedule set.
func scheduled(t *testing.T, rdb redis.UniversalClient) (*troupe.Payload, float64) {
	t.Helper()
	all := rdb.ZRangeWithScores(t.Context(), "schedule", 0, -1).Val()
	if len(all) != 1 {
		t.Fatalf("expected one job in the schedule set, got %v", all)
	}
	return harness.Must(troupe.ParsePayload([]byte(all[0].Member.(string))))(t), all[0].Score
}

func TestDebounceMakesOneJob(t *testing.T) {
	single, _ := redistest.New(t)
	cluster, _ := redistest.NewCluster(t)
	for name, rdb := range map[string]redis.UniversalClient{"one server": single, "cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			var seen []string
			c := client.New(rdb, client.WithMiddleware(func(next client.PushFunc) client.PushFunc {
				return func(ctx context.Context, p *troupe.Payload) error {
					seen = append(seen, string(p.Args()))
					p.SetString("seen", "it")
					return next(ctx, p)
				}
			}))
			push := func(n int, wait, max time.Duration, opts ...client.Option) string {
				t.Helper()
				return harness.Must(c.Push(ctx, marked{n}, append(opts, client.Debounce("a key}{ of \"mine\"", wait, max))...))(t)
			}
			before := time.Now()
			first := push(1, time.Hour, 90*time.Minute)
			_, score := scheduled(t, rdb)
			if d := score - scores.Of(before.Add(time.Hour)); d < 0 || d > 60 {
				t.Errorf("the first is due %v s late", d)
			}
			harness.Equal(t, "the jid of the second push", push(2, 80*time.Minute, 90*time.Minute, client.Queue("other"), client.JID("mine")), first)
			p, second := scheduled(t, rdb)
			if second-score < 19*60 || second-score > 21*60 {
				t.Errorf("the second is due %v s later, want 20 minutes", second-score)
			}
			if p.JID() != first || string(p.Args()) != "[2]" || p.Queue() != "other" || !strings.Contains(string(p.Bytes()), `"seen":"it"`) {
				t.Errorf("the job: %s", p.Bytes())
			}
			if _, ok := p.Get("enqueued_at"); ok {
				t.Errorf("enqueued_at: %s", p.Bytes())
			}
			harness.Equal(t, "the jid of the third push", push(3, 85*time.Minute, 85*time.Minute), first)
			if _, third := scheduled(t, rdb); math.Abs(third-score-25*60) > 1e-3 {
				t.Errorf("the third is due %v s after the first, want 25 minutes to the microsecond", third-score)
			}
			harness.EqualList(t, "what middleware has seen", seen, []string{"[1]", "[2]", "[3]"})

			if _, err := c.PushClass(ctx, "Other", nil, client.Debounce("a key}{ of \"mine\"", time.Hour, 0)); err != nil {
				t.Fatal(err)
			}
			harness.Equal(t, "jobs with one of another class", rdb.ZCard(ctx, "schedule").Val(), 2)
			for _, key := range keysOf(t, rdb, "troupe:debounce:*") {
				if left := rdb.TTL(ctx, key).Val(); left < 59*time.Minute || left > 120*time.Minute {
					t.Errorf("%s lives for %v", key, left)
				}
			}

			harness.Check(t, rdb.Del(ctx, "schedule").Err()) // it was promoted, or deleted
			next := push(4, time.Hour, 0)
			if p, _ := scheduled(t, rdb); next == first || p.JID() != next || string(p.Args()) != "[4]" {
				t.Errorf("begun anew: %s", p.Bytes())
			}
		})
	}
}

func keysOf(t *testing.T, rdb redis.UniversalClient, pattern string) (all []string) {
	t.Helper()
	each := func(ctx context.Context, c redis.Cmdable) {
		all = append(all, c.Keys(ctx, pattern).Val()...)
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		var mu sync.Mutex
		harness.Check(t, cluster.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			each(ctx, c)
			return nil
		}))
	} else {
		each(t.Context(), rdb)
	}
	if len(all) == 0 {
		t.Errorf("no key %s", pattern)
	}
	return all
}

func TestDebounceAtTheSameTime(t *testing.T) {
	rdb, _ := redistest.New(t)
	c := client.New(rdb)
	jids := make([]string, 50)
	var wg sync.WaitGroup
	for i := range jids {
		wg.Go(func() {
			jids[i], _ = c.Push(t.Context(), marked{i}, client.Debounce("k", time.Minute, time.Hour))
		})
	}
	wg.Wait()
	p, _ := scheduled(t, rdb)
	for i, jid := range jids {
		harness.Equal(t, fmt.Sprintf("jid of push %d", i), jid, p.JID())
	}
}

// A push whose reply is lost is sent again, even when its job was promoted by then.
func TestDebounceWithALostReply(t *testing.T) {
	for _, promoted := range []bool{false, true} {
		t.Run(fmt.Sprintf("promoted %v", promoted), func(t *testing.T) {
			direct, _ := redistest.New(t)
			ctx := t.Context()
			proxy := chaos.NewProxy(t, direct.Options())
			o := &redis.Options{Addr: proxy.Listen(), DB: direct.Options().DB} // a pipe has errors after which go-redis does not try again
			o.MaxRetries = 3
			rdb := redis.NewClient(o)
			t.Cleanup(func() { _ = rdb.Close() })
			c := client.New(rdb)
			first := harness.Must(c.Push(ctx, marked{1}, client.Debounce("k", time.Hour, 0)))(t)
			lost := proxy.Add(chaos.Fault{Mentions: "troupe:debounce", Times: 1, Do: chaos.Effect{Cut: true, Applied: true}})
			again := proxy.Add(chaos.Fault{Mentions: "troupe:debounce", Times: 1, Do: chaos.Effect{Call: func() {
				if promoted {
					direct.Del(context.WithoutCancel(ctx), "schedule")
				}
			}}})
			jid, err := c.Push(ctx, marked{2}, client.Debounce("k", time.Hour, 0))
			if err != nil || jid != first {
				t.Fatalf("%q, %v, want %q", jid, err, first)
			}
			harness.Equal(t, "lost replies", lost.Hits(), 1)
			harness.Equal(t, "repetitions", again.Hits(), 1)
			want := int64(1)
			if promoted {
				want = 0
			}
			harness.Equal(t, "jobs in the schedule set", direct.ZCard(ctx, "schedule").Val(), want)
		})
	}
}

func TestWhatCannotBeDebounced(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	c := client.New(rdb)
	debounce := client.Debounce("k", time.Minute, time.Hour)
	single := func(opts ...client.Option) error { _, err := c.Push(ctx, marked{1}, opts...); return err }
	_, many := c.PushMany(ctx, client.Job(marked{1}, debounce))
	_, chain := c.PushChain(ctx, client.Job(marked{1}, debounce), client.Job(marked{2}))
	_, bulk := client.PushBulk(ctx, c, func(yield func(marked) bool) { yield(marked{1}) }, debounce)
	for want, err := range map[string]error{
		`Debounce: got the key "", want a name of what is done once`:                                          single(client.Debounce("", time.Minute, 0)),
		"Debounce: got a wait of 0s, want a time above 0":                                                     single(client.Debounce("k", 0, 0)),
		"Debounce: got a max of 1s, want 0, or 1m0s at least, which is the wait":                              single(client.Debounce("k", time.Minute, time.Second)),
		"Debounce: got it together with In, want only one of them":                                            single(client.In(time.Hour), debounce),
		"At: got it together with Debounce, want only one of them":                                            single(debounce, client.At(time.Now())),
		"Debounce: got it for a unique job, want one of both: of a type that is unique, with NotUnique":       single(debounce, client.Unique(troupe.Unique{})),
		"Debounce: got it for one of several jobs, want a single push that is made at once":                   many,
		"push chain: job 1 of 2: Debounce: got it for one of several jobs":                                    chain,
		"push bulk: after 0 jobs: Debounce: got it for one of several jobs":                                   bulk,
		"WithDefaults: got a time, a jid, a batch size, Unique or Encrypt, want options that suit every push": client.New(rdb, client.WithDefaults(debounce)).Err(),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	harness.Equal(t, "keys", rdb.DBSize(ctx).Val(), 0)
	harness.Check(t, rdb.Set(ctx, "schedule", "x", 0).Err())
	if err := single(debounce); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a schedule set of another type: %v", err)
	}
}
