package beat

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// totals reads the four totals of 2026-11-21.
func totals(t *testing.T, rdb *redis.Client) [4]any {
	t.Helper()
	got := harness.Must(rdb.MGet(t.Context(), "stat:processed", "stat:processed:2026-11-21", "stat:failed", "stat:failed:2026-11-21").Result())(t)
	return [4]any(got)
}

// evening is 2026-11-21 in UTC and the day before where it was written.
var evening = time.Date(2026, 11, 20, 23, 30, 0, 0, time.FixedZone("west", -7*3600))

func TestFlushAdds(t *testing.T) {
	rdb, _ := redistest.New(t)
	f := NewFlusher(id)
	for _, c := range []Counts{{3, 1}, {2, 0}, {0, 0}} {
		harness.OK(t, f.Flush(t.Context(), rdb, c, evening))
	}
	if got := totals(t, rdb); got != [4]any{"5", "5", "1", "1"} {
		t.Errorf("totals %v", got)
	}
	for _, key := range []string{"stat:processed:2026-11-21", "stat:failed:2026-11-21"} {
		if got := ttl(rdb, key); got != 157680000*time.Second {
			t.Errorf("TTL of %s: %v", key, got)
		}
	}
	harness.Equal(t, "TTL of the total", ttl(rdb, "stat:processed"), -1)
	if f.Pending() != (Counts{}) {
		t.Errorf("held %v", f.Pending())
	}
}

func TestFlushOfNothingDoesNotTouchRedis(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialed")
		return nil, io.EOF
	}})
	defer func() { _ = rdb.Close() }()
	harness.Check(t, NewFlusher(id).Flush(t.Context(), rdb, Counts{}, evening))
}

// loseReply is a hook that fails scripts on one side of the server. Other
// commands pass: a new connection sends some of its own.
type loseReply struct{ before, after int }

var errLost = errors.New("connection lost")

func (h *loseReply) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h *loseReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *loseReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		if h.before > 0 {
			h.before--
			cmd.SetErr(errLost)
			return errLost
		}
		err := next(ctx, cmd)
		if h.after > 0 && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			h.after--
			cmd.SetErr(errLost)
			return errLost
		}
		return err
	}
}

func TestFlushCountsOnceWhateverIsLost(t *testing.T) {
	for name, hook := range map[string]loseReply{
		"the request":         {before: 1},
		"the reply":           {after: 1},
		"the reply, twice":    {after: 2},
		"requests, then more": {before: 2, after: 1},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, url := redistest.New(t)
			o := harness.Must(redis.ParseURL(url))(t)
			lossy := redis.NewClient(o)
			defer func() { _ = lossy.Close() }()
			lossy.AddHook(&hook)
			f := NewFlusher(id)
			pushed := Counts{}
			failed := false
			for i := range int64(6) {
				c := Counts{Processed: 10 + i, Failed: i}
				pushed = pushed.plus(c)
				err := f.Flush(t.Context(), lossy, c, evening)
				if failed = failed || err != nil; err != nil && f.Pending() == (Counts{}) {
					t.Error("a failed flush holds nothing")
				}
			}
			if !failed || f.Pending() != (Counts{}) || pushed != (Counts{75, 15}) {
				t.Fatalf("failed %v, held %v of %v", failed, f.Pending(), pushed)
			}
			if got := totals(t, rdb); got != [4]any{"75", "75", "15", "15"} {
				t.Errorf("totals %v", got)
			}
		})
	}
}

func TestABatchKeepsItsDay(t *testing.T) {
	rdb, url := redistest.New(t)
	o, _ := redis.ParseURL(url)
	lossy := redis.NewClient(o)
	defer func() { _ = lossy.Close() }()
	lossy.AddHook(&loseReply{after: 1})
	f := NewFlusher(id)
	if err := f.Flush(t.Context(), lossy, Counts{1, 0}, evening); err == nil {
		t.Fatal("no error")
	}
	harness.OK(t, f.Flush(t.Context(), lossy, Counts{2, 0}, evening.Add(24*time.Hour)))
	if got := totals(t, rdb); got != [4]any{"3", "1", "0", "0"} {
		t.Errorf("totals %v", got)
	}
}

func TestFlushAfterARestartWithoutData(t *testing.T) {
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	f := NewFlusher(id)
	harness.OK(t, f.Flush(t.Context(), rdb, Counts{1, 0}, evening))
	s.Kill()
	if err := f.Flush(t.Context(), rdb, Counts{2, 1}, evening); err == nil {
		t.Fatal("flushed into a killed server")
	}
	harness.OK(t, s.Restart())
	harness.OK(t, f.Flush(t.Context(), rdb, Counts{}, evening))
	if got := totals(t, rdb); got != [4]any{"2", "2", "1", "1"} {
		t.Errorf("totals %v", got)
	}
}
