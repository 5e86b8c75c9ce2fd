package laravel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
)

// Job is a job to be pushed by its name, as Laravel pushes one with Queue::push("name", data).
type Job struct {
	Queue string // required
	// Name is what runs it. To Laravel's workers it is a class and a method, as in
	// "App\\Jobs\\Resize@handle", which gets ($job, $data) and must call $job->delete().
	Name string // required
	// Data is any JSON value. Laravel's workers may keep 14 digits of a number: more belong into a string.
	Data any

	UUID string    // "" makes one
	At   time.Time // when it is to run, in whole seconds; the zero Time is now

	MaxTries      int             // 0: what the worker says
	MaxExceptions int             // 0: no limit of its own
	Backoff       []time.Duration // waits before the second attempt, the third and so on, in whole seconds
	Timeout       time.Duration   // of one attempt, in whole seconds; 0: what the worker says
	FailOnTimeout bool            // an attempt that takes longer is the last one
}

// Client pushes jobs that workers of Laravel and capsules with their wire run, and works on the set of
// failed jobs. It is safe for concurrent use and needs no Close.
type Client struct {
	rdb   *redis.Client
	names names
}

// NewClient makes a Client; rdb, which stays its owner's, is a client of the database in which
// Laravel keeps its queues, and prefix is Options.Prefix.
func NewClient(rdb *redis.Client, prefix string) *Client { return &Client{rdb, names(prefix)} }

// payload is a job as Laravel encodes it.
type payload struct {
	UUID          string          `json:"uuid"`
	DisplayName   string          `json:"displayName"`
	Job           string          `json:"job"`
	MaxTries      *int            `json:"maxTries"`
	MaxExceptions *int            `json:"maxExceptions"`
	FailOnTimeout bool            `json:"failOnTimeout"`
	Backoff       *string         `json:"backoff"`
	Timeout       *int64          `json:"timeout"`
	Data          json.RawMessage `json:"data"`
	CreatedAt     int64           `json:"createdAt"`
	ID            string          `json:"id"`
	Attempts      int             `json:"attempts"`
	Delay         *int64          `json:"delay"`
}

// Push pushes jobs, those of a queue together, and returns their UUIDs, in order. An error of Redis
// may leave some of them pushed; an error of a job leaves none.
func (c *Client) Push(ctx context.Context, jobs ...Job) (uuids []string, err error) {
	now := time.Now()
	raw := make([]Raw, len(jobs))
	for i, j := range jobs {
		if raw[i].Payload, err = j.encode(now); err != nil {
			return nil, fmt.Errorf("laravel: push: job %d: %w", i, err)
		}
		raw[i].Queue, raw[i].At = j.Queue, j.At
		p, _ := troupe.ParsePayload(raw[i].Payload) // encoded just now
		id, _ := p.String("uuid")
		uuids = append(uuids, id)
	}
	return uuids, c.PushRaw(ctx, raw...)
}

func (j Job) encode(now time.Time) ([]byte, error) {
	switch {
	case j.Name == "":
		return nil, errors.New("the field Name is empty, expected the name of a job")
	case j.MaxTries < 0, j.MaxExceptions < 0, j.Timeout < 0:
		return nil, fmt.Errorf("MaxTries is %d, MaxExceptions %d and Timeout %s, expected 0 or more", j.MaxTries, j.MaxExceptions, j.Timeout)
	}
	data, err := encodeJSON(j.Data)
	if err == nil {
		err = destroyed(data)
	}
	if err != nil {
		return nil, fmt.Errorf("the field Data: %w", err)
	}
	p := payload{UUID: j.UUID, Job: j.Name, FailOnTimeout: j.FailOnTimeout, Data: data, CreatedAt: now.Unix(), ID: strings.ReplaceAll(uuid.NewString(), "-", "")}
	p.DisplayName, _, _ = strings.Cut(j.Name, "@")
	if p.UUID == "" {
		p.UUID = uuid.NewString()
	}
	if j.MaxTries > 0 {
		p.MaxTries = &j.MaxTries
	}
	if j.MaxExceptions > 0 {
		p.MaxExceptions = &j.MaxExceptions
	}
	if j.Timeout > 0 {
		p.Timeout = new(wholeUp(j.Timeout))
	}
	if len(j.Backoff) > 0 {
		list := make([]string, len(j.Backoff))
		for i, d := range j.Backoff {
			if d < 0 {
				return nil, fmt.Errorf("the field Backoff[%d] is %s, expected 0 or more", i, d)
			}
			list[i] = fmt.Sprint(wholeUp(d))
		}
		p.Backoff = new(strings.Join(list, ","))
	}
	if j.At.After(now) {
		p.Delay = new(wholeUp(j.At.Sub(now)))
	}
	return encodeJSON(p)
}

// wholeUp is d in seconds, rounded up.
func wholeUp(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Raw is a job in its own words.
type Raw struct {
	Queue   string    // required
	Payload []byte    // JSON with "job" and a number in "attempts"
	At      time.Time // when it is to run, in whole seconds; the zero Time is now
}

// PushRaw is Push for jobs that are encoded already. What Laravel's workers would destroy is
// refused.
func (c *Client) PushRaw(ctx context.Context, jobs ...Raw) error {
	for i, j := range jobs {
		if j.Queue == "" {
			return fmt.Errorf("laravel: push: job %d: the field Queue is empty, expected the name of a queue", i)
		}
		if err := checkQueues([]string{j.Queue}); err != nil {
			return fmt.Errorf("push: job %d: %w", i, err)
		}
		p, err := troupe.ParsePayload(j.Payload)
		if err != nil {
			return fmt.Errorf("laravel: push: job %d: %w", i, err)
		}
		if _, ok := attempts(p); !ok {
			return fmt.Errorf("laravel: push: job %d: %w", i, errNotAJob)
		}
		if name, _ := p.String("job"); name == "" {
			return fmt.Errorf(`laravel: push: job %d: the field "job" is no name, expected that of a job`, i)
		}
		if err := destroyed(j.Payload); err != nil {
			return fmt.Errorf("laravel: push: job %d: %w", i, err)
		}
	}
	now := time.Now()
	var queues []string
	ready := map[string][]any{}
	later := map[string][]redis.Z{}
	for _, j := range jobs {
		if len(ready[j.Queue])+len(later[j.Queue]) == 0 {
			queues = append(queues, j.Queue)
		}
		if j.At.After(now) {
			score := wholeSeconds(float64(j.At.UnixMicro()) / 1e6)
			later[j.Queue] = append(later[j.Queue], redis.Z{Score: score, Member: j.Payload})
		} else {
			ready[j.Queue] = append(ready[j.Queue], j.Payload)
		}
	}
	for _, q := range queues {
		for rest := ready[q]; len(rest) > 0; {
			n := min(len(rest), moveMost)
			if err := pushScript.Run(ctx, c.rdb, []string{c.names.queue(q), c.names.tokens(q)}, rest[:n]...).Err(); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if len(later[q]) > 0 {
			if err := c.rdb.ZAdd(ctx, c.names.delayed(q), later[q]...).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
