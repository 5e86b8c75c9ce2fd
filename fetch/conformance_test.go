package fetch_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/fetch/fetchtest"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/redistest"
)

var (
	reliable = fetchtest.Harness{Name: "reliable", New: fetch.NewReliable}
	waiters  = fetchtest.Harness{Name: "waiters", ManyWaits: true, New: func(env fetch.Env) (fetch.Fetcher, error) {
		env.Waiters = 3
		return fetch.NewReliable(env)
	}}
	basic = fetchtest.Harness{Name: "basic", New: fetch.NewBasic}

	// clustered runs the whole suite on clusters of one node: the test looks at it through a
	// plain client, and whatever needs two slots is refused.
	clustered = fetchtest.Harness{
		Name: "cluster",
		New: func(env fetch.Env) (fetch.Fetcher, error) {
			env.Redis = clusterOf(env.Redis.(*redis.Client))
			return fetch.NewReliable(env)
		},
		Server: redistest.Alone, TwoSteps: true,
		Rescue: func(ctx context.Context, rdb *redis.Client, lease time.Duration) error {
			cluster := clusterOf(rdb)
			defer func() { _ = cluster.Close() }()
			r, err := rescue.New(rescue.Config{Redis: cluster, Lease: lease, Logger: zerolog.Nop()})
			if err != nil {
				return err
			}
			_, err = r.Rescue(ctx)
			return err
		},
	}
)

func clusterOf(rdb *redis.Client) *redis.ClusterClient {
	o := rdb.Options()
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{o.Addr}, Dialer: o.Dialer, Protocol: 2, ReadTimeout: o.ReadTimeout,
		MaxRedirects: cmp.Or(o.MaxRetries, -1),
	})
}

func TestMain(m *testing.M) { fetchtest.Main(m, reliable, waiters, clustered) }

func TestReliableDelivery(t *testing.T) { fetchtest.Delivery(t, reliable) }
func TestReliableCrash(t *testing.T)    { fetchtest.Crash(t, reliable) }
func TestWaitersDelivery(t *testing.T)  { fetchtest.Delivery(t, waiters) }
func TestWaitersCrash(t *testing.T)     { fetchtest.Crash(t, waiters) }
func TestClusterDelivery(t *testing.T)  { fetchtest.Delivery(t, clustered) }
func TestClusterCrash(t *testing.T)     { fetchtest.Crash(t, clustered) }
func TestReliableEffects(t *testing.T)  { fetchtest.Effects(t, reliable) }
func TestWaitersEffects(t *testing.T)   { fetchtest.Effects(t, waiters) }
func TestClusterEffects(t *testing.T)   { fetchtest.Effects(t, clustered) }
func TestReliableLimits(t *testing.T)   { fetchtest.Limits(t, reliable) }
func TestWaitersLimits(t *testing.T)    { fetchtest.Limits(t, waiters) }
func TestClusterLimits(t *testing.T)    { fetchtest.Limits(t, clustered) }
func TestBasicDelivery(t *testing.T)    { fetchtest.Delivery(t, basic) }
