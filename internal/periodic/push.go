package periodic

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// Pushes are the last jobs that e has pushed, the newest first.
func (s *Store) Pushes(ctx context.Context, e *Entry) ([]Push, error) {
	lines, err := s.Redis.LRange(ctx, keys.PeriodicHistory(e.key), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("read what periodic job %q has pushed: %w", e.Name, err)
	}
	out := make([]Push, 0, len(lines))
	for _, line := range lines {
		out = append(out, pushOf(line))
	}
	return out, nil
}

// Push is a job that an Entry has pushed.
type Push struct {
	JID string
	At  time.Time
}

func pushOf(line string) (p Push) {
	var v struct{ JID, Enqueued string }
	_ = json.Unmarshal([]byte(line), &v)
	p.JID = v.JID
	for _, form := range []string{pushForm, "2006-01-02 15:04:05 MST"} {
		if t, err := time.Parse(form, v.Enqueued); err == nil {
			p.At = t
		}
	}
	return p
}

func pushLine(jid string, at time.Time) string {
	line, _ := job.EncodeJSON(struct {
		JID      string `json:"jid"`
		Enqueued string `json:"enqueued"`
	}{jid, at.UTC().Format(pushForm)}) // texts of ours
	return string(line)
}

// Push pushes a job of e now, beside its ticks, through c; "" if middleware stopped it. On an error
// it may have arrived.
func (s *Store) Push(ctx context.Context, c *client.Client, e *Entry, form troupe.Timestamps) (jid string, err error) {
	if e.Fault != nil {
		return "", fmt.Errorf("push periodic job %q: %w", e.Name, e.Fault)
	}
	now := time.Now()
	p, err := e.Job(time.Time{}, now, form)
	if err == nil {
		p, err = c.Prepare(ctx, p, now)
	}
	if err != nil || p == nil {
		return "", err
	}
	_, err = s.Redis.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.SAdd(ctx, keys.Queues, p.Queue())
		pipe.LPush(ctx, keys.Queue(p.Queue()), p.Bytes())
		pipe.HSet(ctx, e.key, "last_enqueue_time", now.UTC().Format(pushForm))
		pipe.LPush(ctx, keys.PeriodicHistory(e.key), pushLine(p.JID(), now))
		pipe.LTrim(ctx, keys.PeriodicHistory(e.key), 0, 9)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("push periodic job %q: %w", e.Name, err)
	}
	return p.JID(), nil
}
