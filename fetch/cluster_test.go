package fetch_test

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/fetch/fetchtest"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redistest"
)

// clustered runs the whole suite on clusters of one node: the test looks at it
// through a plain client, and whatever needs two slots is refused.
var clustered = fetchtest.Harness{
	Name: "cluster",
	New: func(env fetch.Env) (fetch.Fetcher, error) {
		env.Redis = clusterOf(env.Redis.(*redis.Client))
		return fetch.NewReliable(env)
	},
	Server: redistest.Alone, TwoSteps: true,
	Rescue: func(ctx context.Context, rdb *redis.Client, lease time.Duration) error {
		cluster := clusterOf(rdb)
		defer func() { _ = cluster.Close() }()
		r, err := fetch.NewRescuer(fetch.RescuerConfig{Redis: cluster, Lease: lease, Logger: zerolog.Nop()})
		if err != nil {
			return err
		}
		_, err = r.Rescue(ctx)
		return err
	},
}

func clusterOf(rdb *redis.Client) *redis.ClusterClient {
	o := rdb.Options()
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{o.Addr}, Dialer: o.Dialer, Protocol: 2, ReadTimeout: o.ReadTimeout,
		MaxRedirects: cmp.Or(o.MaxRetries, -1),
	})
}

func TestClusterDelivery(t *testing.T) { fetchtest.Delivery(t, clustered) }
func TestClusterCrash(t *testing.T)    { fetchtest.Crash(t, clustered) }

func TestClusterRefusesWhatItCannotKeepTogether(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = rdb.Close() })
	env := fetch.Env{Redis: rdb, Identity: "h:1:a", Capsule: "default", Queues: fetch.Strict{"a{b}"}}
	if _, err := fetch.NewReliable(env); err == nil || !strings.Contains(err.Error(), `queue "a{b}" has a brace`) {
		t.Errorf("a queue whose name has a hash tag: %v", err)
	}
	env.Queues = fetch.Strict{"a"}
	if _, err := fetch.NewBasic(env); err == nil || !strings.Contains(err.Error(), "Redis Cluster") {
		t.Errorf("the basic fetcher: %v", err)
	}
}

// What no index knows is found on whichever node it is, and what a rescuer has
// shut and emptied is not found for ever.
func TestClusterSweepLooksAtEveryNode(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	const id = "gone:1:a#default.1"
	queues := []string{"q0", "q1", "q2", "q3", "q4", "q4.suspects"}
	for _, q := range queues {
		if err := rdb.HSet(ctx, keys.WIP(q, id), "!", "1", "1000", "job of "+q).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := fetch.NewRescuer(fetch.RescuerConfig{Redis: rdb, Lease: time.Second, Logger: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	done, err := r.Sweep(ctx)
	if err != nil || done.Units != len(queues) || done.Fetchers != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	for _, q := range queues {
		place := keys.WIP(q, id)
		if got := rdb.LRange(ctx, "queue:"+q, 0, -1).Val(); len(got) != 1 || got[0] != "job of "+q {
			t.Errorf("queue %s: %q", q, got)
		}
		if fence := rdb.HGetAll(ctx, place).Val(); len(fence) != 1 || !strings.HasPrefix(fence["!"], "dead ") {
			t.Errorf("the place of %s is not shut: %v", q, fence)
		}
		if ttl := rdb.TTL(ctx, place).Val(); ttl < 23*time.Hour || ttl > 24*time.Hour {
			t.Errorf("it stays for %v", ttl)
		}
	}
	if done, err = r.Sweep(ctx); err != nil || done.Fetchers != 0 || done.Units != 0 {
		t.Errorf("the second sweep found it again: %+v, %v", done, err)
	}
}
