package sched_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors/internal/sched"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// clock is the time of Redis in an answer, less than an hour before what waits.
var clock = regexp.MustCompile(`[0-9]{10}\.[0-9]{6}\b`)

// spy notes the name and the reply of every command that a client sends.
type spy struct {
	mu   sync.Mutex
	said []string
}

func (s *spy) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}

func (s *spy) note(cmd redis.Cmder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := cmd.String()
	s.said = append(s.said, cmd.Name()+clock.ReplaceAllString(text[max(0, strings.LastIndex(text, ": ")):], "TIME"))
}

func (s *spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		s.note(cmd)
		return err
	}
}

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			s.note(cmd)
		}
		return err
	}
}

// TestAMillionWaitingEntriesCostWhatOneDoes promotes while nothing is due: with a
// million entries the commands are those of one entry, and so is every byte of the
// replies, but for the time in it.
func TestAMillionWaitingEntriesCostWhatOneDoes(t *testing.T) {
	many := harness.Effort(100_000, 1_000_000)
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	first := time.Now().Add(time.Hour)
	costs := func() []string {
		watched := redis.NewClient(rdb.Options())
		defer func() { _ = watched.Close() }()
		s := sched.New(sched.Config{Redis: watched})
		// new connections, and the script
		harness.Must(s.Promote(ctx, keys.Retry))(t)
		var seen spy
		watched.AddHook(&seen)
		for range 3 {
			for _, set := range []string{keys.Retry, keys.Schedule} {
				if p, err := s.Promote(ctx, set); err != nil || p.Moved+p.Dead+p.Dropped > 0 || p.More || p.Next.Sub(first).Abs() > time.Millisecond {
					t.Fatalf("%s: %+v, %v", set, p, err)
				}
			}
		}
		return seen.list()
	}
	for _, set := range []string{keys.Retry, keys.Schedule} {
		add(t, rdb, set, first, job(1, "q"))
	}
	one := costs()
	const chunk = 10_000
	fill := redis.NewScript(`for i = ARGV[1], ARGV[1] + ARGV[2] - 1, 1000 do
		local entries = {}
		for k = i, i + 999 do entries[#entries + 1], entries[#entries + 2] = 9e9 + k, k end
		redis.call('ZADD', KEYS[1], unpack(entries))
	end`)
	for at := 0; at < many; at += chunk {
		set := []string{"retry", "schedule"}[at/chunk%2]
		if err := fill.Run(ctx, rdb, []string{set}, at, chunk).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
	if n := rdb.ZCard(ctx, "retry").Val() + rdb.ZCard(ctx, "schedule").Val(); n != int64(many)+2 {
		t.Fatalf("%d entries wait", n)
	}
	if more := costs(); !slices.Equal(one, more) || len(one) != 3*2 {
		t.Errorf("with one entry a set:\n%s\nwith %d:\n%s", strings.Join(one, "\n"), many, strings.Join(more, "\n"))
	}
}
