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
	Server: redistest.Alone,
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
