package memredis_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/memredis"
)

// A pipeline may be longer than what the server reads before it answers.
func TestALongPipelineInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memredis.New(t)
		client := redis.NewClient(m.Options())
		defer func() { _ = client.Close() }()
		value := strings.Repeat("x", 1000)
		cmds, err := client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for range 100 {
				p.Echo(t.Context(), value)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, cmd := range cmds {
			if got := cmd.(*redis.StringCmd).Val(); got != value {
				t.Fatalf("%q", got)
			}
		}
	})
}

// A command that takes longer than the read time-out of its client ends with it,
// and the next one is answered.
func TestAReadTimesOutInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memredis.New(t)
		client := redis.NewClient(m.Options())
		defer func() { _ = client.Close() }()
		opts := m.Options()
		opts.ReadTimeout = time.Second
		rdb := redis.NewClient(opts)
		defer func() { _ = rdb.Close() }()
		began := time.Now()
		err := rdb.Do(t.Context(), "blpop", "nothing", 0).Err()
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v, expected the deadline after 1s", err, time.Since(began))
		}
		if got, err := rdb.Echo(t.Context(), "hello").Result(); got != "hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}
