package actors_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
)

// A share where there can be none is refused before anything runs, by its name.
func TestShareIsRefusedWhereThereCanBeNone(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer func() { _, _ = rdb.Close(), cluster.Close() }()
	for want, c := range map[string]actors.Config{
		"Capsules[0].Share is -1, expected 0 to 10000":                {Redis: rdb, Capsules: []actors.Capsule{{Share: -1}}},
		"Capsules[1].Share is 5, expected 0 on a Redis Cluster":       {Redis: cluster, Capsules: []actors.Capsule{{}, {Name: "b", Share: 5}}},
		"capsule x: fetch: Share is 5, expected 0: the basic fetcher": {Redis: rdb, Capsules: []actors.Capsule{{Name: "x", Share: 5, Fetch: fetch.NewBasic}}},
	} {
		c.Registry = &troupe.Registry{}
		if _, err := actors.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one with %q", err, want)
		}
	}
}
