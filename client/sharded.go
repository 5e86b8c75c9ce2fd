package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/cut"
)

// Shard is one of several Redis servers with the queues that live there.
type Shard struct {
	Name   string
	Redis  redis.UniversalClient
	Queues []string
}

// Sharded pushes each job to the Redis of its queue. A queue lives on one shard;
// a job of a queue that no shard has is an error. It is safe for concurrent use.
type Sharded struct {
	clients map[string]*Client // by shard
	shards  map[string]string  // by queue
}

// UnknownQueueError is a push into a queue that no shard has. Nothing was sent.
type UnknownQueueError struct {
	Queue string
	Known []string // all queues of all shards, sorted
}

func (e *UnknownQueueError) Error() string {
	return fmt.Sprintf("queue %q is on no shard, expected one of %s", e.Queue, strings.Join(e.Known, ", "))
}

// NewSharded returns a client of several shards, which share the options. Client
// middleware must not change the queue of a job: one that does fails the push.
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
		if c.chain != nil {
			c.mw = append(slices.Clip(c.mw), stays)
			c.chain = chain(c.mw)
		}
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

// routed is the key of the queue by which a push was routed.
type routed struct{}

// stays is the innermost middleware: it sees what the others have made of a job.
func stays(next PushFunc) PushFunc {
	return func(ctx context.Context, p *troupe.Payload) error {
		if queue, ok := ctx.Value(routed{}).(string); ok && queue != p.Queue() {
			return fmt.Errorf("middleware has moved the job from queue %q to %q, which may be on another shard", queue, p.Queue())
		}
		return next(ctx, p)
	}
}

// Queues lists the queues of all shards, sorted.
func (s *Sharded) Queues() []string { return slices.Sorted(maps.Keys(s.shards)) }

// Queue returns the client of the shard that has the queue, for bulk pushes
// and whatever else is done with one Redis; else an *UnknownQueueError.
func (s *Sharded) Queue(name string) (*Client, error) {
	shard, ok := s.shards[name]
	if !ok {
		return nil, &UnknownQueueError{Queue: name, Known: s.Queues()}
	}
	return s.clients[shard], nil
}

// Buffered is how many jobs wait in memory for all shards, see WithBuffer: each has
// a buffer of its own.
func (s *Sharded) Buffered() (n int) {
	for _, c := range s.clients {
		n += c.Buffered()
	}
	return n
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
	ctx, c, err := s.route(ctx, args, opts)
	if err != nil {
		return "", fmt.Errorf("push: %w", err)
	}
	return c.Push(ctx, args, opts...)
}

// PushIn is Push with the option In.
func (s *Sharded) PushIn(ctx context.Context, d time.Duration, args troupe.Args, opts ...Option) (string, error) {
	return s.Push(ctx, args, append(slices.Clip(opts), In(d))...)
}

// PushAt is Push with the option At.
func (s *Sharded) PushAt(ctx context.Context, t time.Time, args troupe.Args, opts ...Option) (string, error) {
	return s.Push(ctx, args, append(slices.Clip(opts), At(t))...)
}

// PushClass is Client.PushClass on the shard of the queue.
func (s *Sharded) PushClass(ctx context.Context, class string, args []any, opts ...Option) (string, error) {
	ctx, c, err := s.route(ctx, nil, opts)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", class, err)
	}
	return c.PushClass(ctx, class, args, opts...)
}

// PushPayload is Client.PushPayload on the shard of the queue that the record or
// the defaults name.
func (s *Sharded) PushPayload(ctx context.Context, p *troupe.Payload) (string, error) {
	queue := p.Queue()
	if queue == "" {
		return s.pushDefault(ctx, p)
	}
	c, err := s.Queue(queue)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", cut.Text(p.Class()), err)
	}
	return c.PushPayload(context.WithValue(ctx, routed{}, queue), p)
}

// pushDefault pushes a record without a queue: the defaults name it.
func (s *Sharded) pushDefault(ctx context.Context, p *troupe.Payload) (string, error) {
	ctx, c, err := s.route(ctx, nil, nil)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", cut.Text(p.Class()), err)
	}
	return c.PushPayload(ctx, p)
}

// route finds the shard of a push. All clients have the same defaults. args are nil
// if there is no Go type.
func (s *Sharded) route(ctx context.Context, args troupe.Args, opts []Option) (context.Context, *Client, error) {
	var one *Client
	for _, one = range s.clients {
		break
	}
	o, err := one.apply(args, opts)
	if err != nil {
		return ctx, nil, err
	}
	c, err := s.Queue(o.queue)
	return context.WithValue(ctx, routed{}, o.queue), c, err
}
