package laravel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// FailedJob is a job in troupe's set of failed jobs.
type FailedJob struct {
	ID         string // of this failure
	UUID       string // of the job; "" if it has none
	Connection string
	Queue      string
	Exception  string // the error's text
	FailedAt   time.Time
	Payload    []byte // as it was taken, whatever it is

	row string
}

// failedRow is the beginning of a member of the set, a line of JSON; the payload's bytes follow it.
type failedRow struct {
	ID         string `json:"id"`
	UUID       string `json:"uuid,omitempty"`
	Connection string `json:"connection"`
	Queue      string `json:"queue"`
	Exception  string `json:"exception"`
	FailedAt   int64  `json:"failed_at"`
}

func (r failedRow) head() []byte {
	line, _ := json.Marshal(r) // strings and numbers
	return append(line, '\n')
}

// row makes the row of a failed job. It is used as retry.Rules.Dead.
func (s *system) row(raw []byte, queue string, err error, now time.Time) []byte {
	r := failedRow{ID: job.NewID(), Connection: s.Connection, Queue: queue, FailedAt: now.Unix()}
	if err != nil {
		r.Exception = err.Error()
	}
	if p, err := troupe.ParsePayload(raw); err == nil {
		r.UUID, _ = p.String("uuid")
		if fault := destroyed(raw); fault != nil && s.Relay != "" {
			r.Exception += " (not relayed: " + fault.Error() + ")"
		}
	}
	return append(r.head(), raw...)
}

func parseRow(row []byte) (*FailedJob, error) {
	line, payload, ok := bytes.Cut(row, []byte("\n"))
	var r failedRow
	if err := json.Unmarshal(line, &r); err != nil || !ok {
		return nil, fmt.Errorf("laravel: a member of the set of failed jobs begins with %.80q, expected a line of JSON", line)
	}
	return &FailedJob{
		ID: r.ID, UUID: r.UUID, Connection: r.Connection, Queue: r.Queue, Exception: r.Exception,
		FailedAt: time.Unix(r.FailedAt, 0), Payload: payload, row: string(row),
	}, nil
}

// ErrNoFailedJob is the error of Retry and Forget for an id that no failed job has.
var ErrNoFailedJob = errors.New("laravel: there is no failed job of this id")

// Failed lists up to n failed jobs, the newest first, after the first skip ones. n below 1 is 100.
func (c *Client) Failed(ctx context.Context, skip, n int) ([]FailedJob, error) {
	if n < 1 {
		n = 100
	}
	rows, err := c.rdb.ZRangeArgs(ctx, redis.ZRangeArgs{Key: c.names.failed(), Start: skip, Stop: skip + n - 1, Rev: true}).Result()
	if err != nil {
		return nil, err
	}
	jobs := make([]FailedJob, 0, len(rows))
	for _, row := range rows {
		f, err := parseRow([]byte(row))
		if err != nil {
			return jobs, err
		}
		jobs = append(jobs, *f)
	}
	return jobs, nil
}

// Retry puts a failed job back into its queue as if it were new, by its ID or its UUID. The time
// until which it may be tried is dropped.
func (c *Client) Retry(ctx context.Context, id string) error {
	f, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	p, err := troupe.ParsePayload(f.Payload)
	if err != nil {
		return fmt.Errorf("laravel: retry of %s: %w", id, err)
	}
	if _, ok := attempts(p); !ok {
		return fmt.Errorf("laravel: retry of %s: %w", id, errNotAJob)
	}
	if err := destroyed(f.Payload); err != nil {
		return fmt.Errorf("laravel: retry of %s: %w", id, err)
	}
	p.SetInt("attempts", 0)
	p.Delete(exceptions)
	dropUntil(p)
	keys := []string{c.names.failed(), c.names.queue(f.Queue), c.names.tokens(f.Queue)}
	n, err := againScript.Run(ctx, c.rdb, keys, f.row, p.Bytes()).Int()
	if err == nil && n == 0 {
		err = ErrNoFailedJob
	}
	return err
}

// Forget deletes a failed job, by its ID or its UUID.
func (c *Client) Forget(ctx context.Context, id string) error {
	f, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	n, err := c.rdb.ZRem(ctx, c.names.failed(), f.row).Result()
	if err == nil && n == 0 {
		err = ErrNoFailedJob
	}
	return err
}

// find looks a failed job up; the newest if there are several of a UUID.
func (c *Client) find(ctx context.Context, id string) (*FailedJob, error) {
	if id == "" {
		return nil, errors.New("laravel: the id of a failed job is empty")
	}
	for skip := 0; ; skip += 100 {
		jobs, err := c.Failed(ctx, skip, 100)
		for i := range jobs {
			if jobs[i].ID == id || jobs[i].UUID == id {
				return &jobs[i], nil
			}
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		if len(jobs) == 0 {
			return nil, ErrNoFailedJob
		}
	}
}
