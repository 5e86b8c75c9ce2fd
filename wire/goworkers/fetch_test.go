package goworkers

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/fetch/fetchtest"
	"github.com/troupehq/troupe/internal/redisconn"
)

// The fetcher is the daemon's, on the keys of a namespace.
var suite = fetchtest.Harness{
	Name: "go-workers", Key: namespace("app").key,
	New: func(env fetch.Env) (fetch.Fetcher, error) {
		rename := func(c redis.UniversalClient) { redisconn.MapKeys(c, namespace("app").key) }
		env.Redis, env.OnClient = redis.NewClient(env.Redis.(*redis.Client).Options()), rename
		rename(env.Redis)
		return fetch.NewReliable(env)
	},
}

func TestMain(m *testing.M) { fetchtest.Main(m, suite) }

func TestDelivery(t *testing.T) { fetchtest.Delivery(t, suite) }

func TestCrash(t *testing.T) { fetchtest.Crash(t, suite) }
