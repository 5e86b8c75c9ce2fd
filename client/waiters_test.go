package client_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit/chaos"
)

// Redis loads its data as the connection of who waits comes back, and refuses the subscription. It is made again.
func TestAwaitSubscribesAgainWhereRedisHasRefused(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	way := chaos.NewProxy(t, harness.Must(redis.ParseURL(url))(t))
	c := client.New(way.Client())
	const jid = "0123456789abcdef01234567"
	got := make(chan error, 1)
	go func() {
		_, err := c.Await(t.Context(), jid)
		got <- err
	}()
	listening := func() bool {
		return rdb.PubSubNumSub(t.Context(), keys.Result(jid)).Val()[keys.Result(jid)] == 1
	}
	harness.Await(t, "it listens", listening)
	refuse := way.Add(chaos.Fault{Command: "subscribe", Do: chaos.Effect{Refuse: "LOADING Redis is loading the dataset in memory"}})
	way.Cut()
	harness.Await(t, "it was refused", func() bool { return refuse.Hits() > 0 })
	refuse.Remove()
	harness.Await(t, "it listens again", listening)
	select {
	case err := <-got:
		t.Errorf("it has ended: %v", err)
	default:
	}
}
