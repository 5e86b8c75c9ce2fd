package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/redisconn"
)

// Jobs per round trip when BatchSize does not say, as in Sidekiq.
const (
	batchSize      = 1000
	batchScheduled = 100
)

// PushBulk pushes a job for each element of seq, 1,000 a round trip (100 if
// they are scheduled), so that they are fetched in the order of seq. Options
// apply to all; see also Spread and BatchSize, and PushMany for jobs
// with options of their own. What they do not set comes
// from the Defaults of each element's type. All share one created_at.
//
// The result has one jid per element. Where middleware stopped some it is "", and the error is a
// *StoppedError that tells which and why: the others are pushed. With another error the result has
// the jids of the batches that were pushed before, which stay pushed; an element that
// cannot be encoded fails its whole batch.
//
// It is no method of Client, since methods have no type parameters.
func PushBulk[A troupe.Args](ctx context.Context, c *Client, seq iter.Seq[A], opts ...Option) (jids []string, err error) {
	ctx, b, err := c.bulk(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("push bulk: %w", err)
	}
	defer func() { b.span.End(err) }()
	for args := range seq {
		raw, err := encodeArgs(args)
		if err == nil {
			err = b.add(ctx, args, args.Class(), raw)
		}
		if err != nil {
			return b.end(ctx, err)
		}
	}
	return b.end(ctx, nil)
}

// PushBulkClass is PushBulk for a class that has no Go type.
func (c *Client) PushBulkClass(ctx context.Context, class string, seq iter.Seq[[]any], opts ...Option) (jids []string, err error) {
	ctx, b, err := c.bulk(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("push bulk: %w", err)
	}
	defer func() { b.span.End(err) }()
	for args := range seq {
		raw, err := encodeList(args)
		if err == nil {
			err = b.add(ctx, nil, class, raw)
		}
		if err != nil {
			return b.end(ctx, err)
		}
	}
	return b.end(ctx, nil)
}

// bulk is a bulk push under way.
type bulk struct {
	c       *Client
	opts    []Option
	o       *options     // opts over the defaults of typ
	typ     reflect.Type // of the last element, nil without a Go type
	size    int
	now     time.Time
	created json.RawMessage
	span    *job.PushSpan // of the whole push
	linked  bool          // its jobs are a chain

	batch   []draft
	jids    []string      // of what has been pushed, "" of what was stopped
	stopped map[int]error // by the index in jids; nil for none
}

func (c *Client) bulk(ctx context.Context, opts []Option) (context.Context, *bulk, error) {
	o, err := c.sum(nil, opts)
	if err == nil && o.jid != "" {
		err = &FieldError{"JID", "it for a bulk push", "a single push"}
	}
	if err != nil {
		return ctx, nil, err
	}
	b := &bulk{c: c, opts: opts, o: o, size: o.batch, now: time.Now()}
	if b.size == 0 {
		b.size = batchSize
		if o.when != nil {
			b.size = batchScheduled
		}
	}
	b.created = c.stamp(b.now)
	ctx, b.span = c.spans(ctx, job.PushCall{Bulk: true})
	return ctx, b, nil
}

func (b *bulk) add(ctx context.Context, typed troupe.Args, class string, args json.RawMessage) error {
	if t := reflect.TypeOf(typed); t != b.typ {
		o, err := b.c.apply(typed, b.opts)
		if err != nil {
			return err
		}
		b.o, b.typ = o, t
	}
	return b.put(ctx, b.o, class, args, job.NewID())
}

// put adds a job with the options o, and pushes the batch if it is full.
func (b *bulk) put(ctx context.Context, o *options, class string, args json.RawMessage, id string) error {
	if err := o.single("one of several jobs"); err != nil {
		return err
	}
	var at time.Time
	if o.when != nil {
		at = o.when(b.now)
	}
	d, err := o.draft(class, args, id, at, b.now, b.created)
	if err != nil {
		return err
	}
	d.mark(b.span, o, class)
	b.batch = append(b.batch, d)
	if len(b.batch) < b.size {
		return nil
	}
	return b.flush(ctx)
}

// flush pushes what has gathered.
func (b *bulk) flush(ctx context.Context) error {
	if len(b.batch) == 0 {
		return nil
	}
	entries := make([]entry, 0, len(b.batch))
	jids := make([]string, 0, len(b.batch))
	now := time.Now()
	stamp := b.c.stamp(now)
	stopped := map[int]error(nil)
	for i := range b.batch {
		d := &b.batch[i]
		jid := d.jid
		if d.asText(b.c) {
			d.close(stamp)
		} else {
			p, err := d.payload()
			if err != nil {
				return err
			}
			if d.entry, jid, err = b.c.seal(ctx, p, now); failure(err) != nil {
				return err
			}
			if err != nil {
				if stopped == nil {
					stopped = map[int]error{}
				}
				stopped[len(b.jids)+i] = err
			}
		}
		jids = append(jids, jid)
		if jid != "" {
			entries = append(entries, d.entry)
		}
	}
	if b.linked {
		if len(stopped) > 0 {
			return &StoppedError{stopped}
		}
		var err error
		if entries, err = link(entries, redisconn.OnCluster(b.c.rdb)); err != nil {
			return err
		}
	}
	errs := b.c.deliver(ctx, entries)
	for i, k := 0, 0; i < len(jids) && errs != nil && !b.linked; i++ { // a chain is one entry
		if jids[i] == "" {
			continue
		}
		if dup, ok := errchain.As[*DuplicateError](errs[k]); ok {
			if stopped == nil {
				stopped = map[int]error{}
			}
			jids[i], stopped[len(b.jids)+i], errs[k] = "", dup, nil
		}
		k++
	}
	if err := first(errs); err != nil {
		return err
	}
	b.jids = append(b.jids, jids...)
	if b.stopped == nil {
		b.stopped = stopped
	} else {
		maps.Copy(b.stopped, stopped)
	}
	b.batch = b.batch[:0]
	return nil
}

// with is err, if it is not nil, and what was stopped.
func with(err error, stopped map[int]error) error {
	switch {
	case len(stopped) == 0:
		return err
	case err == nil:
		return &StoppedError{stopped}
	}
	return errors.Join(err, &StoppedError{stopped})
}

// end pushes the rest, unless err has ended the push.
func (b *bulk) end(ctx context.Context, err error) ([]string, error) {
	if err == nil {
		err = b.flush(ctx)
	}
	if err != nil {
		err = fmt.Errorf("push bulk: after %d jobs: %w", len(b.jids), err)
	}
	return b.jids, with(err, b.stopped)
}
