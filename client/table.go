package client

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// This file is for package outbox: pushes that go into a table, and batches of its rows that go to Redis.

// Taking returns a client like c whose pushes go to take instead of Redis, whose errors it returns: nil, or one for each. It
// is for package outbox.
func (c *Client) Taking(take func(ctx context.Context, pushes []job.Push) []error) *Client {
	return &Client{
		rdb: c.rdb, mw: c.mw, chain: c.chain, spans: c.spans, timestamps: c.timestamps, defaults: c.defaults,
		plain: c.plain, types: c.types, err: c.err, own: c.own, crypt: c.crypt, waiters: c.waiters, taking: take,
	}
}

// take hands entries to the one that takes them.
func (c *Client) take(ctx context.Context, entries []entry) []error {
	pushes := make([]job.Push, len(entries))
	for i, e := range entries {
		pushes[i] = job.Push{Queue: e.queue, Score: e.score, Payload: e.raw, Lock: e.lock}
	}
	return c.taking(ctx, pushes)
}

// Row is a job for PushOnce, as any program may have written it.
type Row struct {
	Queue   string    // bare name; "" is that of the payload
	At      time.Time // when it is due; zero for the payload's field "at", or at once
	Payload []byte
}

// PushOnce pushes rows in one step, at most once: the batches of a pusher are numbered and count up, and one whose number
// is not above the last does nothing. It says for each row why it is no job that can be pushed, or nil. With err
// nothing is known: the same rows are to be sent again with the same number. It is for package outbox, and not for a Redis Cluster.
func (c *Client) PushOnce(ctx context.Context, pusher string, number int64, rows []Row) (faults []error, err error) {
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("push: %w", err)
	}
	rdb, ok := c.rdb.(*redis.Client)
	if !ok || redisconn.OnCluster(c.rdb) {
		return nil, fmt.Errorf("push: %w", &FieldError{"client", fmt.Sprintf("one of %T", c.rdb), "one of *redis.Client: a batch goes to one Redis in one step"})
	}
	faults = make([]error, len(rows))
	var entries []entry
	var of []int // the rows of entries
	for i, row := range rows {
		e, err := c.entryOf(ctx, row)
		if err != nil {
			faults[i] = err
			continue
		}
		entries, of = append(entries, e), append(of, i)
	}
	refused, err := sendNumbered(ctx, rdb, keys.Pushed(pusher), uint64(number), entries)
	if err != nil {
		return nil, fmt.Errorf("push: %w", unavailable(err, !redisconn.NotSent(err)))
	}
	for i, err := range refused {
		faults[of[i]] = err
	}
	return faults, nil
}

// entryOf is what is sent of a row.
func (c *Client) entryOf(ctx context.Context, row Row) (entry, error) {
	now := time.Now()
	p, err := troupe.ParsePayload(row.Payload)
	if err != nil {
		return entry{}, err
	}
	if row.Queue != "" {
		p.SetString("queue", row.Queue)
	}
	if !row.At.IsZero() {
		p.SetTime("at", row.At, troupe.TimestampsFloat)
	}
	q, err := strict(p)
	if err == nil {
		err = c.check(q)
	}
	if err == nil {
		q = c.reorder(q)
		err = c.complete(q, c.stamp(now))
	}
	if err != nil {
		return entry{}, err
	}
	e, _, err := c.seal(ctx, q, now)
	if err == nil && e.lock != nil {
		err = &FieldError{"t_lock", "it in an outbox", "none: a unique job is pushed by the client"}
	}
	return e, err
}

// sendNumbered sends entries by a script that takes each number once. It returns nil, or an error or nil for each.
func sendNumbered(ctx context.Context, rdb redis.UniversalClient, marker string, number uint64, entries []entry) ([]error, error) {
	steps := plan(entries)
	names, args := []string{marker}, []any{number, markerTime.Milliseconds()}
	for _, s := range steps {
		if !s.wakeUp {
			names = append(names, fmt.Sprint(s.args[1]))
		}
		args = append(append(args, len(s.args)), s.args...)
	}
	report, err := pushOnce.Run(ctx, rdb, names, args...).Text()
	if err != nil {
		return nil, err
	}
	if report == "" {
		return make([]error, len(entries)), nil
	}
	errs := make([]error, len(steps))
	for line := range strings.Lines(report) {
		i, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, err := strconv.Atoi(i)
		if err != nil || n < 0 || n >= len(steps) {
			return nil, fmt.Errorf("unexpected reply of the script: %q", report)
		}
		errs[n] = refusal(text)
	}
	for i := range steps {
		if steps[i].safe { // the jobs are there; the set of queues is of a wrong type, say
			errs[i] = nil
		}
	}
	return perEntry(entries, steps, errs), nil
}
