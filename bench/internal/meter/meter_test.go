package meter_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/bench/internal/meter"
	"github.com/troupehq/troupe/bench/internal/server"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What a script does is not what its client has sent, and the driver's own
// commands are nobody's; also behind a line longer than any buffer.
func TestMonitorTellsClientsFromScriptsAndFromTheDriver(t *testing.T) {
	ctx := t.Context()
	r := start(t)
	other := redis.NewClient(&redis.Options{Addr: r.Addr, PoolSize: 1})
	defer other.Close()
	if err := other.Ping(ctx).Err(); err != nil { // what a new connection sends is not counted
		t.Fatal(err)
	}
	watch, err := meter.Watch(ctx, r.Addr, r.Mine)
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][]any{
		{"EVAL", "for i = 1, 100 do redis.call('INCR', KEYS[1]) end", 1, "n"},
		{"SET", "long", strings.Repeat("x", 3<<20)},
		{"GET", "n"},
	} {
		if err := other.Do(ctx, cmd...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	if err := r.Client.Set(ctx, "mine", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := watch.Sync(ctx, r.Client); err != nil {
		t.Fatal(err)
	}
	got := watch.Commands()
	if len(got) != 3 || got["EVAL"] != 1 || got["SET"] != 1 || got["GET"] != 1 {
		t.Errorf("commands %v, expected one each of EVAL, SET and GET", got)
	}
	if err := watch.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadsAreRoundTrips(t *testing.T) {
	ctx := t.Context()
	r := start(t)
	other, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	before, err := meter.Read(ctx, r.Client)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := io.WriteString(other, strings.Repeat("PING\r\n", 7)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(other, make([]byte, 7*len("+PONG\r\n"))); err != nil {
			t.Fatal(err)
		}
	}
	after, err := meter.Read(ctx, r.Client)
	if err != nil {
		t.Fatal(err)
	}
	used := after.Sub(before)
	const info = 1 // one of the two readings
	if used.Reads != 10+info || used.Calls != 70+info {
		t.Errorf("%d reads, %d calls, expected 10 and 70 and those of INFO", used.Reads, used.Calls)
	}
	if used.CPU <= 0 || used.CPU > after.CPU {
		t.Errorf("CPU %v of %v", used.CPU, after.CPU)
	}
}

func start(t *testing.T) *server.Redis {
	t.Helper()
	if err := server.RedisMissing(); err != nil {
		redistest.Missing(t, err)
	}
	r, err := server.StartRedis(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}
