package sched_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/sched"
)

func job(i int, queue string) string {
	return fmt.Sprintf(`{"retry":true,"queue":%q,"class":"X","args":[%d],"jid":"%024x","created_at":1795224881.5}`, queue, i, i)
}

func add(t testing.TB, rdb redis.Cmdable, set string, at time.Time, members ...string) {
	t.Helper()
	z := make([]redis.Z, len(members))
	for i, m := range members {
		z[i] = redis.Z{Score: scores.Of(at) + float64(i)*1e-3, Member: m}
	}
	for len(z) > 0 {
		n := min(len(z), 1000)
		harness.OK(t, rdb.ZAdd(context.Background(), set, z[:n]...).Err())
		z = z[n:]
	}
}

// drain promotes until nothing more is due.
func drain(t testing.TB, s *sched.Scheduler, set string) (sum sched.Promoted) {
	t.Helper()
	for {
		p := harness.Must(s.Promote(context.Background(), set))(t)
		sum.Moved += p.Moved
		sum.Dead += p.Dead
		sum.Dropped += p.Dropped
		sum.Next = p.Next
		if !p.More {
			return sum
		}
	}
}

func parse(t testing.TB, raw string) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload([]byte(raw))
	if err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return p
}

// unstamped takes enqueued_at off, after checking that it is there.
func unstamped(t testing.TB, raw string) string {
	t.Helper()
	p := parse(t, raw)
	if at, ok := p.Time("enqueued_at"); !ok || time.Since(at).Abs() > time.Minute {
		t.Errorf("enqueued_at is not fresh: %s", raw)
	}
	p.Delete("enqueued_at")
	return string(p.Bytes())
}

// logbook is a logger whose lines can be read while it is written.
type logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logbook) logger() zerolog.Logger { return zerolog.New(l) }

func (l *logbook) lines(t testing.TB) (lines []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for raw := range bytes.Lines(l.buf.Bytes()) {
		var line map[string]any
		harness.OK(t, json.Unmarshal(raw, &line))
		lines = append(lines, line)
	}
	return lines
}

// eventually waits for a condition that no signal announces.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func dump(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
