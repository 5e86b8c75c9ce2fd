package goworkers

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
)

// Job is a job to be pushed.
type Job struct {
	Queue string // required
	Class string // shown in logs; go-workers does not dispatch by it
	Args  any    // any JSON value; go-workers does not ask for an array

	JID string    // "" makes one: 24 hex digits
	At  time.Time // when it is to run; the zero Time is now

	// Retries: the zero value and Never retry nothing, as Enqueue of go-workers does.
	// troupe.Times(n) sets retry and retry_max: go-workers2 then retries n+1 times,
	// go-workers, which does not know retry_max, 26 times.
	Retries troupe.Retries

	// Next has it run before all that wait, as each push of go-workers itself does. It is
	// not for a job with a time At.
	Next bool
}

// Client pushes jobs that go-workers, go-workers2 and capsules with their wire run. It is safe
// for concurrent use and needs no Close.
type Client struct {
	rdb redis.UniversalClient
	n   namespace
}

// NewClient makes a Client of the namespace; rdb stays its owner's.
func NewClient(rdb redis.UniversalClient, namespaceName string) *Client {
	return &Client{rdb, namespace(namespaceName)}
}

// wireJob is a job as go-workers encodes it.
type wireJob struct {
	Queue      string  `json:"queue"`
	Class      string  `json:"class"`
	Args       any     `json:"args"`
	JID        string  `json:"jid"`
	EnqueuedAt float64 `json:"enqueued_at"`
	Retry      bool    `json:"retry,omitempty"`
	RetryMax   *int    `json:"retry_max,omitempty"`
	At         float64 `json:"at,omitempty"`
}

// Push pushes jobs in one round trip and returns their ids, in order. An error of Redis may leave
// some of them pushed; an error of a job leaves none.
func (c *Client) Push(ctx context.Context, jobs ...Job) (jids []string, err error) {
	now := time.Now()
	texts := make([][]byte, len(jobs))
	for i, j := range jobs {
		if j.Queue == "" {
			return nil, fmt.Errorf("push: job %d: Queue is empty, expected the name of a queue", i)
		}
		retries, again := j.Retries.Limit()
		again = again && j.Retries != troupe.Never()
		if again && retries < 0 {
			return nil, fmt.Errorf("push: job %d: Retries is %d, expected 0 or more", i, retries)
		}
		if j.Next && j.At.After(now) {
			return nil, fmt.Errorf("push: job %d: Next is set and At is %s, expected one of them", i, j.At.Format(time.RFC3339))
		}
		if j.JID == "" {
			j.JID = job.NewID()
		}
		w := wireJob{Queue: j.Queue, Class: j.Class, Args: j.Args, JID: j.JID, EnqueuedAt: seconds(now)}
		if j.Args == nil {
			w.Args = []any{}
		}
		if again {
			w.Retry, w.RetryMax = true, &retries
		}
		if j.At.After(now) {
			w.At = seconds(j.At)
		}
		if texts[i], err = json.Marshal(w); err != nil {
			return nil, fmt.Errorf("push: job %d: Args: %w", i, err)
		}
		jids = append(jids, j.JID)
	}
	_, err = c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, j := range jobs {
			key := c.n.key("queue:" + j.Queue)
			switch {
			case j.At.After(now):
				pipe.Do(ctx, "zadd", c.n.key("schedule"), scores.Format(seconds(j.At)), texts[i])
				continue
			case j.Next:
				pipe.SAdd(ctx, c.n.key("queues"), j.Queue)
				pipe.RPush(ctx, key, texts[i])
			default:
				pipe.SAdd(ctx, c.n.key("queues"), j.Queue)
				pipe.LPush(ctx, key, texts[i])
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	return jids, nil
}
