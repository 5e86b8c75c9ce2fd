package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// Pusher is what Client and Sharded have in common. Code that only pushes takes it, so
// that it runs with one Redis, with several, and with a double in a test.
type Pusher interface {
	Push(ctx context.Context, args troupe.Args, opts ...Option) (jid string, err error)
	PushClass(ctx context.Context, class string, args []any, opts ...Option) (jid string, err error)
	PushMany(ctx context.Context, items ...Item) (jids []string, err error)
}

var (
	_ Pusher = (*Client)(nil)
	_ Pusher = (*Sharded)(nil)
)

// Item is one job of PushMany; Job makes it.
type Item struct {
	args troupe.Args
	opts []Option
}

// Job is a job for PushMany, with options of its own. All options of a single push may be
// given.
func Job(args troupe.Args, opts ...Option) Item { return Item{args, opts} }

// PushMany pushes jobs of any classes, each with its own options, 1,000 a round trip (100
// if some are scheduled). Jobs of one queue are fetched in the order of items.
//
// The result has one jid per item. Where middleware stopped some it is "", and the error is a
// *StoppedError that tells which and why: the others are pushed. With another error the
// batches that were pushed before stay pushed and have their jids, the others have "". An
// item that cannot be encoded fails its whole batch.
func (c *Client) PushMany(ctx context.Context, items ...Item) (jids []string, err error) {
	jids, stopped, err := c.pushMany(ctx, items)
	return jids, with(err, stopped)
}

func (c *Client) pushMany(ctx context.Context, items []Item) (jids []string, stopped map[int]error, err error) {
	ctx, b, err := c.bulk(ctx, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("push many: %w", err)
	}
	defer func() { b.span.End(err) }()
	for i, item := range items {
		if err := b.addItem(ctx, item); err != nil {
			return b.padded(items), b.stopped, fmt.Errorf("push many: job %d of %d: %w", i+1, len(items), err)
		}
	}
	if err := b.flush(ctx); err != nil {
		return b.padded(items), b.stopped, fmt.Errorf("push many: after %d of %d jobs: %w", len(b.jids), len(items), err)
	}
	return b.jids, b.stopped, nil
}

func (b *bulk) addItem(ctx context.Context, item Item) error {
	raw, err := encodeArgs(item.args)
	if err != nil {
		return err
	}
	o, err := b.c.apply(item.args, item.opts)
	if err != nil {
		return err
	}
	if name := o.bulkOnly(); name != "" {
		return &FieldError{name, "it for one job of PushMany", "PushBulk"}
	}
	if o.when != nil && b.size > batchScheduled && !b.linked {
		b.size = batchScheduled
	}
	id := o.jid
	if id == "" {
		id = job.NewID()
	}
	if err := b.put(ctx, o, item.args.Class(), raw, id); err != nil {
		return err
	}
	if len(b.batch) == 0 {
		b.size = batchSize // the next batch may have no scheduled job
	}
	return nil
}

// padded are the jids of what was pushed, "" for the rest.
func (b *bulk) padded(items []Item) []string {
	return append(b.jids, make([]string, len(items)-len(b.jids))...)
}

// PushMany is Client.PushMany, in one call for each shard: the batches of a shard that
// fails do not hold up those of another.
func (s *Sharded) PushMany(ctx context.Context, items ...Item) ([]string, error) {
	indices := make(map[*Client][]int) // indices of items
	var order []*Client
	for i, item := range items {
		if err := checkArgs(item.args); err != nil {
			return make([]string, len(items)), fmt.Errorf("push many: job %d of %d: %w", i+1, len(items), err)
		}
		c, err := s.route(item.args, item.opts)
		if err != nil {
			return make([]string, len(items)), fmt.Errorf("push many: job %d of %d: %w", i+1, len(items), err)
		}
		if indices[c] == nil {
			order = append(order, c)
		}
		indices[c] = append(indices[c], i)
	}
	jids := make([]string, len(items))
	var errs []error
	stopped := map[int]error{}
	for _, c := range order {
		part := make([]Item, len(indices[c]))
		for k, i := range indices[c] {
			part[k] = items[i]
		}
		pushed, out, err := c.pushMany(ctx, part)
		for k, jid := range pushed {
			jids[indices[c][k]] = jid
		}
		for k, err := range out {
			stopped[indices[c][k]] = err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %s: %w", c.own.shard, err))
		}
	}
	return jids, with(errors.Join(errs...), stopped)
}

// checkArgs refuses a nil, which has neither a class nor arguments.
func checkArgs(args troupe.Args) error {
	if args == nil {
		return &FieldError{"args", "nil", "a value that implements troupe.Args"}
	}
	if v := reflect.ValueOf(args); v.Kind() == reflect.Pointer && v.IsNil() {
		return &FieldError{"args", fmt.Sprintf("a nil %T", args), "a value that implements troupe.Args"}
	}
	return nil
}

// encodeArgs is the text of the arguments of a typed push.
func encodeArgs(args troupe.Args) ([]byte, error) {
	if err := checkArgs(args); err != nil {
		return nil, err
	}
	return job.EncodeArgs(args)
}
