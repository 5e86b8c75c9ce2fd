package memredis_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/memredis"
)

// A blocked move ends when it is told to, and with its connection: it moves nothing then.
func TestABlockedMoveInMemoryEnds(t *testing.T) {
	for name, end := range map[string]func(client, waiting *redis.Client, id int64){
		"told to": func(client, _ *redis.Client, id int64) {
			if n, err := client.Do(context.Background(), "client", "unblock", id).Int(); n != 1 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		},
		"with its connection": func(_, waiting *redis.Client, _ int64) { _ = waiting.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := memredis.New(t)
				client := redis.NewClient(m.Options())
				defer func() { _ = client.Close() }()
				opt := m.Options()
				opt.PoolSize = 1
				waiting := redis.NewClient(opt)
				defer func() { _ = waiting.Close() }()
				id := waiting.ClientID(t.Context()).Val()
				ended := make(chan error, 1)
				began := time.Now()
				go func() { ended <- waiting.BLMove(t.Context(), "from", "to", "RIGHT", "LEFT", time.Minute).Err() }()
				time.Sleep(time.Second)
				end(client, waiting, id)
				if err := <-ended; err == nil || time.Since(began) != time.Second {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				client.LPush(t.Context(), "from", "a")
				synctest.Wait()
				if left := client.LLen(t.Context(), "from").Val(); left != 1 {
					t.Error("it has moved what came later")
				}
				if n := client.Do(t.Context(), "client", "unblock", id).Val(); n != int64(0) {
					t.Errorf("unblocking nobody returns %v", n)
				}
			})
		})
	}
}
