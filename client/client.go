package client

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/scores"
)

// Client pushes jobs through a redis client that stays its owner's: a Client
// needs no Close, but for one WithBuffer. It is safe for concurrent use; where many
// goroutines push at once, their jobs travel together. New makes one; with the zero value
// every call is an error that says so.
//
//	Push           one job, or one of a class without a Go type: PushClass, PushJSON
//	PushMany       jobs of any classes, each with its own options
//	PushBulk       the jobs of an iterator, up to millions, of one type. It is a function of this package
//	               that takes the client
//	PushBulkClass  likewise, of a class without a Go type
//	PushChain      jobs of which each enters Redis when the one before is done
//
// Await waits for the end of a job, and returns its result.
//
// Within returns the client whose pushes enter Redis with the ack of the job that makes them.
type Client struct {
	rdb        redis.UniversalClient
	mw         []Middleware
	chain      PushFunc // nil without middleware
	spans      job.BeginPush
	timestamps troupe.Timestamps
	defaults   []field
	plain      *options  // of a push without any
	types      *sync.Map // reflect.Type -> *options: plain with the type's Defaults
	err        error     // what is wrong with what it was made of; every push returns it
	gather     gatherer
	buffer     *buffer                                   // nil without WithBuffer
	own        *ownShard                                 // nil unless it belongs to a Sharded
	crypt      *job.Crypt                                // nil without WithEncryption
	waiters    *waiters                                  // calls of Await
	taking     func(context.Context, []job.Push) []error // where pushes go instead of Redis, of Taking; else nil
	kept       *job.Kept                                 // where pushes go instead of Redis, of Within; else nil
	batch      *batching                                 // into which it pushes, of Batch; else nil
}

// ClientOption configures a Client.
type ClientOption func(*Client)

// WithMiddleware adds client middleware; the first one is the outermost.
func WithMiddleware(mw ...Middleware) ClientOption {
	return func(c *Client) { c.mw = append(c.mw, mw...) }
}

// WithTimestamps chooses how created_at and enqueued_at are written; the
// default, troupe.TimestampsFloat, is what every version of Sidekiq reads.
func WithTimestamps(t troupe.Timestamps) ClientOption {
	return func(c *Client) { c.timestamps = t }
}

// WithDefaults sets options for every push that does not set them itself, and
// whose type does not in its Defaults (see troupe.Options): Queue, Retry, Tags, Set
// and the like, but no time and no JID.
func WithDefaults(opts ...Option) ClientOption {
	return func(c *Client) {
		o := options{fields: c.defaults}
		for _, opt := range opts {
			if opt == nil {
				o.fail(errNilOption)
				continue
			}
			opt(&o)
		}
		if o.timed != "" || o.jid != "" || o.batch != 0 || o.unique != nil || o.encrypt {
			o.fail(&FieldError{"WithDefaults", "a time, a jid, a batch size, Unique or Encrypt", "options that suit every push"})
		}
		c.defaults = o.fields
		c.fail(o.err)
	}
}

// New returns a client that pushes through rdb. Nothing is sent before the
// first push. A fault in what is given, such as a nil rdb, is told by Err, and by every push.
func New(rdb redis.UniversalClient, opts ...ClientOption) *Client {
	c := &Client{rdb: rdb, defaults: builtin(), spans: job.NoSpan, types: new(sync.Map), waiters: newWaiters(rdb)}
	if v := reflect.ValueOf(rdb); rdb == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		c.fail(&FieldError{"client.New", "a nil redis client", "one that is connected to the Redis of the jobs"})
	}
	for _, opt := range opts {
		if opt == nil {
			c.fail(errNilOption)
			continue
		}
		opt(c)
	}
	var err error
	c.chain, err = chain(c.mw)
	c.fail(err)
	c.plain = &options{fields: c.defaults}
	c.plain.settle(c.err)
	return c
}

func (c *Client) fail(err error) {
	if err != nil {
		c.err = errors.Join(c.err, err)
	}
}

// Err tells what is wrong with the client: a *FieldError for each fault in what New got, or that
// it was not made by New. nil means that it can push.
func (c *Client) Err() error {
	if c == nil || c.plain == nil {
		return errNotMade
	}
	return c.err
}

var (
	errNotMade   = &FieldError{"client", "nil or the zero Client", "one that client.New has made"}
	errNilOption = &FieldError{"option", "nil", "an option"}
)

// stamp is the text of a timestamp.
func (c *Client) stamp(t time.Time) json.RawMessage {
	return scores.AppendTime(make([]byte, 0, scores.TimeRoom), t, c.timestamps == troupe.TimestampsMillis)
}

// apply is sum for a push through c itself: if c belongs to a shard, the queue must be one of that shard.
func (c *Client) apply(args troupe.Args, opts []Option) (*options, error) {
	o, err := c.sum(args, opts)
	if err != nil {
		return nil, err
	}
	return o, c.own.check(o.queue)
}

// sum adds up opts, the defaults of the type of args and the client's. args are
// nil if there is no Go type. What it returns is only read: pushes may share it.
func (c *Client) sum(args troupe.Args, opts []Option) (*options, error) {
	o, err := c.base(args)
	if err != nil {
		return nil, err
	}
	if len(opts) > 0 {
		o = o.with(opts, c.err)
	}
	return o, o.err
}
