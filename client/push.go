package client

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/scores"
	"github.com/troupehq/troupe/internal/wirejson"
	"github.com/troupehq/troupe/internal/words"
)

// Push pushes one job and returns its jid. A push that was not made is an error: one that middleware
// stopped is ErrStopped. PushMany and PushBulk push many in few round trips. What opts
// do not set comes from the Defaults of the type of args (see troupe.Options), then
// from WithDefaults.
func (c *Client) Push(ctx context.Context, args troupe.Args, opts ...Option) (string, error) {
	if err := checkArgs(args); err != nil {
		return "", fmt.Errorf("push: %w", err)
	}
	raw, err := job.EncodeArgs(args)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", args.Class(), err)
	}
	return c.push(ctx, args, args.Class(), raw, opts)
}

// PushClass pushes a job of a class that has no Go type, so without defaults of
// one. args are encoded by troupe.Payload.SetJSON; nil means none.
func (c *Client) PushClass(ctx context.Context, class string, args []any, opts ...Option) (string, error) {
	raw, err := encodeList(args)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", class, err)
	}
	return c.push(ctx, nil, class, raw, opts)
}

// PushJSON pushes a job whose arguments are the text of a JSON array. It is
// brought into the form in which Ruby would write it, see troupe.Payload.SetJSON:
// integers of any length stay, other numbers become doubles (1e3 is 1000.0). A
// number that is no double (1e999) is an error that tells its place in args.
func (c *Client) PushJSON(ctx context.Context, class string, args json.RawMessage, opts ...Option) (string, error) {
	var p troupe.Payload
	if err := p.SetJSON("args", args); err != nil {
		return "", fmt.Errorf("push %s: %w", class, err)
	}
	if raw, _ := p.Get("args"); raw[0] != '[' {
		return "", fmt.Errorf("push %s: %w", class, &FieldError{"args", wirejson.KindOf(raw), "an array"})
	}
	return c.push(ctx, nil, class, p.Args(), opts)
}

// PushPayload pushes a whole record, which it does not change: Sidekiq's raw
// client push. Defaults are merged under it, jid and created_at added if
// missing, enqueued_at written anew; a field "at" (seconds since the epoch)
// sends it to the schedule set, even a time that has passed. What is pushed is
// in the form in which Ruby would write it, as with PushJSON.
func (c *Client) PushPayload(ctx context.Context, p *troupe.Payload) (string, error) {
	if err := c.Err(); err != nil {
		return "", fmt.Errorf("push: %w", err)
	}
	if p == nil {
		return "", fmt.Errorf("push: %w", errNilPayload)
	}
	now := time.Now()
	q, err := strict(p)
	if err == nil {
		err = c.check(q)
	}
	if err == nil {
		q = c.reorder(q)
		err = c.complete(q, c.stamp(now))
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", words.Text(p.Class()), err)
	}
	ctx, span := c.spans(ctx, job.PushCall{Queue: q.Queue(), JID: q.JID(), Payload: q})
	jid, err := c.finish(ctx, q, now)
	span.End(failure(err))
	return jid, err
}

// push pushes a job with the arguments raw. typed is where its class and raw came
// from, nil if there is no Go type.
func (c *Client) push(ctx context.Context, typed troupe.Args, class string, raw json.RawMessage, opts []Option) (jid string, err error) {
	o, err := c.apply(typed, opts)
	if err == nil {
		if name := o.bulkOnly(); name != "" {
			err = &FieldError{name, "it for a single push", "a bulk push"}
		} else {
			err = c.checkDebounce(o)
		}
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", class, err)
	}
	now := time.Now()
	stamp := c.stamp(now)
	at := now
	if o.when != nil {
		at = o.when(now)
	}
	id := o.jid
	if id == "" {
		id = job.NewID()
	}
	d, err := o.draft(class, raw, id, at, now, stamp)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", class, err)
	}
	ctx, span := c.spans(ctx, job.PushCall{Queue: o.queue, Class: class, JID: id})
	defer func() { span.End(failure(err)) }()
	d.mark(span, o, class)
	if !d.asText(c) || o.debounce != nil {
		p, err := d.payload()
		if err == nil && o.debounce == nil {
			return c.finish(ctx, p, now)
		}
		if err == nil {
			jid, err = c.sendDebounced(ctx, p, o.debounce, now)
		}
		if err != nil {
			return "", fmt.Errorf("push %s: %w", class, err)
		}
		return jid, nil
	}
	d.close(stamp)
	if err := c.sendOne(ctx, d.entry); err != nil {
		return "", fmt.Errorf("push %s: %w", class, err)
	}
	return id, nil
}

// failure is err, unless the push was stopped, which is no fault.
func failure(err error) error {
	if errchain.Is(err, ErrStopped) {
		return nil
	}
	return err
}

// finish takes a valid payload through the middleware and sends it.
func (c *Client) finish(ctx context.Context, p *troupe.Payload, now time.Time) (string, error) {
	class := words.Text(p.Class())
	e, jid, err := c.seal(ctx, p, now)
	if err == nil {
		err = c.sendOne(ctx, e)
	}
	if err != nil {
		return "", fmt.Errorf("push %s: %w", class, err)
	}
	return jid, nil
}

// seal takes a valid payload through the middleware to what is sent. A job that was stopped is
// ErrStopped, or an error that wraps it.
func (c *Client) seal(ctx context.Context, p *troupe.Payload, now time.Time) (e entry, jid string, err error) {
	if c.chain != nil {
		out, err := c.through(ctx, p)
		if err != nil {
			return entry{}, "", err
		}
		// Strict arguments are checked after the middleware, which may repair them.
		if p, err = strict(out); err == nil {
			if err = c.check(p); err == nil {
				err = c.complete(p, c.stamp(now))
			}
		}
		if err != nil {
			return entry{}, "", &MiddlewareError{err}
		}
	}
	e.queue = p.Queue()
	if at, ok := p.Get("at"); ok {
		due, _ := number(at) // checked
		e.score = scores.Format(due)
		p.Delete("at")
		p.Delete("enqueued_at")
	} else {
		p.SetTime("enqueued_at", now, c.timestamps)
	}
	if e.lock, err = job.SealLock(p, redisconn.OnCluster(c.rdb)); err != nil {
		return entry{}, "", fielded(err)
	}
	if err := c.crypt.Seal(p); err != nil { // after the digest of the lock, which is that of the arguments
		return entry{}, "", &FieldError{"Encrypt", err.Error(), "a client WithEncryption"}
	}
	e.raw = p.Bytes()
	if jid = p.JID(); jid == "" {
		raw, _ := p.Get("jid")
		jid = string(raw) // not a string; odd, but Ruby takes it
	}
	return e, jid, nil
}

var errNilPayload = &FieldError{"payload", "nil", "a *troupe.Payload"}

func encodeList(args []any) (json.RawMessage, error) {
	if len(args) == 0 {
		return json.RawMessage("[]"), nil
	}
	return job.EncodeArgs(args)
}
