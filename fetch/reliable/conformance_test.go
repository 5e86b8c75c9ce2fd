//go:build claims

package reliable_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/fetch/fetchtest"
	"github.com/troupehq/troupe/fetch/reliable"
	"github.com/troupehq/troupe/internal/redistest"
)

var single = fetchtest.Harness{Name: "single", New: reliable.New, Rescue: rescue}

// clustered runs the whole suite on clusters of one node: the test looks at it through a
// plain client, and whatever needs two slots is refused.
var clustered = fetchtest.Harness{
	Name: "cluster",
	New: func(env fetch.Env) (fetch.Fetcher, error) {
		env.Redis = clusterOf(env.Redis.(*redis.Client))
		return reliable.New(env)
	},
	Server: redistest.Alone, TwoSteps: true,
	Rescue: func(ctx context.Context, rdb *redis.Client, lease time.Duration) error {
		cluster := clusterOf(rdb)
		defer func() { _ = cluster.Close() }()
		return rescueBy(ctx, cluster, lease)
	},
}

func clusterOf(rdb *redis.Client) *redis.ClusterClient {
	o := rdb.Options()
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{o.Addr}, Dialer: o.Dialer, Protocol: 2, ReadTimeout: o.ReadTimeout,
		MaxRedirects: cmp.Or(o.MaxRetries, -1),
	})
}

func rescue(ctx context.Context, rdb *redis.Client, lease time.Duration) error {
	return rescueBy(ctx, rdb, lease)
}

func rescueBy(ctx context.Context, rdb redis.UniversalClient, lease time.Duration) error {
	r, err := reliable.NewRescuer(fetch.RescuerConfig{Redis: rdb, Lease: lease, Logger: zerolog.Nop()})
	if err != nil {
		return err
	}
	_, err = r.Rescue(ctx)
	return err
}

func TestMain(m *testing.M) { fetchtest.Main(m, single, clustered) }

func TestDelivery(t *testing.T)        { fetchtest.Delivery(t, single) }
func TestCrash(t *testing.T)           { fetchtest.Crash(t, single) }
func TestClusterDelivery(t *testing.T) { fetchtest.Delivery(t, clustered) }
func TestClusterCrash(t *testing.T)    { fetchtest.Crash(t, clustered) }
