package memredis_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/script"
	"github.com/troupehq/troupe/internal/test/harness"
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

// A script of this module runs in a state that others have used. It sees nothing of them,
// and what a script has done before it fails stays done, as in Redis.
func TestScriptsShareOneStateInMemory(t *testing.T) {
	echo := script.New("memredis.echo", "return {#KEYS, KEYS[1] or '', #ARGV, ARGV[1] or ''}")
	fails := script.New("memredis.fails", "redis.call('SET', KEYS[1], 'done'); local t = {}; return t.x.y")
	unknown := script.New("memredis.unknown", "return left")
	writes := script.New("memredis.writes", "left = 1; return 1")
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(memredis.New(t).Options())
		defer func() { _ = client.Close() }()
		run := func(s *script.Script, keys []string, args ...any) string {
			v, err := s.Run(t.Context(), client, keys, args...).Result()
			return fmt.Sprint(v, err != nil)
		}
		for range 3 { // the first time miniredis itself runs each of them
			for s, want := range map[*script.Script]string{echo: "[1 k 1 a] false", fails: "<nil> true", unknown: "<nil> true", writes: "<nil> true"} {
				if got := run(s, []string{"k"}, "a"); got != want {
					t.Errorf("%s: %s, expected %s", s.Name, got, want)
				}
			}
			harness.Equal(t, "without keys", run(echo, nil), "[0  0 ] false")
			harness.Equal(t, "the script that fails has written", client.GetDel(t.Context(), "k").Val(), "done")
		}
		client.ScriptFlush(t.Context())
		if err := client.EvalSha(t.Context(), echo.Hash(), nil).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
			t.Errorf("after SCRIPT FLUSH: %v", err)
		}
		tx, err := client.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			echo.Queue(t.Context(), p, []string{"k"}, "b")
			return nil
		})
		harness.Equal(t, "in a transaction", fmt.Sprint(tx[0].(*redis.Cmd).Val(), err), "[1 k 1 b] <nil>")
	})
}
