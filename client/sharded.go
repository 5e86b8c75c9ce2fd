package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/words"
)

// Shard is one of several Redis servers with the queues that live there.
type Shard struct {
	Name   string
	Redis  redis.UniversalClient
	Queues []string
}

// Sharded pushes each job to the Redis of its queue. A queue lives on one shard;
// a job of a queue that no shard has is a *FieldError. It is safe for concurrent use.
type Sharded struct {
	clients map[string]*Client // by shard
	shards  map[string]string  // by queue
}

// NewSharded returns a client of several shards, which share the options. Client
// middleware must not move a job to a queue of another shard: one that does fails
// the push.
func NewSharded(shards []Shard, opts ...ClientOption) (*Sharded, error) {
	s := &Sharded{clients: map[string]*Client{}, shards: map[string]string{}}
	var errs []error
	if len(shards) == 0 {
		errs = append(errs, errors.New("none given, expected at least one"))
	}
	for _, shard := range shards {
		if shard.Name == "" || s.clients[shard.Name] != nil {
			errs = append(errs, fmt.Errorf("named %q, expected a name that no other has", shard.Name))
		}
		if shard.Redis == nil {
			errs = append(errs, fmt.Errorf("%s: Redis is nil, expected a client", shard.Name))
		}
		if len(shard.Queues) == 0 {
			errs = append(errs, fmt.Errorf("%s: no queues, expected at least one", shard.Name))
		}
		for _, queue := range shard.Queues {
			if other, taken := s.shards[queue]; taken {
				errs = append(errs, fmt.Errorf("%s: queue %q is on %s already", shard.Name, queue, other))
			}
			s.shards[queue] = shard.Name
		}
		c := New(shard.Redis, opts...)
		c.own = &ownShard{shard.Name, slices.Clone(shard.Queues)}
		s.clients[shard.Name] = c
	}
	for i, err := range errs {
		errs[i] = fmt.Errorf("shards: %w", err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s, nil
}

// ownShard is the shard of a client that belongs to a Sharded.
type ownShard struct {
	shard  string
	queues []string // of the shard
}

// check reports whether a job of the queue may be pushed there.
func (h *ownShard) check(queue string) error {
	if h == nil || slices.Contains(h.queues, queue) {
		return nil
	}
	known := slices.Sorted(slices.Values(h.queues))
	return &FieldError{"queue", strconv.Quote(words.Text(queue)), "one of shard " + h.shard + ": " + strings.Join(known, ", ")}
}

// Queue returns the client of the shard that has the queue, for bulk pushes
// and whatever else is done with one Redis; else a *FieldError. A push of
// that client into a queue of another shard fails with one, too.
func (s *Sharded) Queue(name string) (*Client, error) {
	shard, ok := s.shards[name]
	if !ok {
		known := slices.Sorted(maps.Keys(s.shards))
		return nil, &FieldError{"queue", strconv.Quote(words.Text(name)), "one of the shards: " + strings.Join(known, ", ")}
	}
	return s.clients[shard], nil
}

// Flush is Client.Flush for all shards.
func (s *Sharded) Flush(ctx context.Context) error {
	return s.each(func(c *Client) error { return c.Flush(ctx) })
}

// Close is Client.Close for all shards.
func (s *Sharded) Close(ctx context.Context) error {
	return s.each(func(c *Client) error { return c.Close(ctx) })
}

func (s *Sharded) each(f func(*Client) error) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.clients)) {
		if err := f(s.clients[name]); err != nil {
			errs = append(errs, fmt.Errorf("shard %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Push is Client.Push on the shard of the queue that opts, the Defaults of the type
// or the client's defaults name.
func (s *Sharded) Push(ctx context.Context, args troupe.Args, opts ...Option) (string, error) {
	err := checkArgs(args)
	if err == nil {
		var c *Client
		if c, err = s.route(args, opts); err == nil {
			return c.Push(ctx, args, opts...)
		}
	}
	return "", fmt.Errorf("push: %w", err)
}

// PushClass is Client.PushClass on the shard of the queue.
func (s *Sharded) PushClass(ctx context.Context, class string, args []any, opts ...Option) (string, error) {
	c, err := s.route(nil, opts)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", class, err)
	}
	return c.PushClass(ctx, class, args, opts...)
}

// PushPayload is Client.PushPayload on the shard of the queue that the record or
// the defaults name.
func (s *Sharded) PushPayload(ctx context.Context, p *troupe.Payload) (string, error) {
	if p == nil {
		return "", fmt.Errorf("push: %w", errNilPayload)
	}
	var c *Client
	var err error
	if queue := p.Queue(); queue != "" {
		c, err = s.Queue(queue)
	} else {
		c, err = s.route(nil, nil)
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", words.Text(p.Class()), err)
	}
	return c.PushPayload(ctx, p)
}

// route finds the shard of a push. All clients have the same defaults. args are nil
// if there is no Go type.
func (s *Sharded) route(args troupe.Args, opts []Option) (*Client, error) {
	var one *Client
	for _, one = range s.clients {
		break
	}
	o, err := one.sum(args, opts)
	if err != nil {
		return nil, err
	}
	return s.Queue(o.queue)
}
