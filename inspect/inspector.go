package inspect

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// Errors that say why there is nothing to return or to do.
var (
	// ErrNotFound: no such job, entry, process or tree.
	ErrNotFound = errors.New("not found")

	// ErrEmbedded: the process is part of somebody else's program and takes no
	// Quiet and Stop.
	ErrEmbedded = errors.New("an embedded process cannot be quieted or stopped from outside")
)

// Inspector is the entry to the data API. It keeps nothing in memory and is
// safe for concurrent use, as are the values it returns.
type Inspector struct {
	rdb         redis.UniversalClient
	client      *client.Client
	deadMax     int
	deadTimeout time.Duration
}

// Option configures an Inspector.
type Option func(*Inspector)

// WithClient gives the client whose middleware, defaults and timestamps apply
// to jobs that go back into a queue (SortedEntry.Retry and AddToQueue). Without
// it they get those of client.New(rdb).
func WithClient(c *client.Client) Option { return func(i *Inspector) { i.client = c } }

// WithDeadLimits bounds the dead set whenever something is killed: it keeps
// max-1 entries, as Sidekiq does, none older than timeout. 0 means 10,000 and
// 180 days, below 0 unbounded.
func WithDeadLimits(maxJobs int, timeout time.Duration) Option {
	return func(i *Inspector) { i.deadMax, i.deadTimeout = maxJobs, timeout }
}

// New returns an Inspector of the database of rdb, which is never closed here.
// Nothing is sent.
func New(rdb redis.UniversalClient, opts ...Option) *Inspector {
	i := &Inspector{rdb: rdb}
	for _, opt := range opts {
		opt(i)
	}
	if i.client == nil {
		i.client = client.New(rdb)
	}
	if i.deadMax == 0 {
		i.deadMax = 10_000
	}
	if i.deadTimeout == 0 {
		i.deadTimeout = 180 * 24 * time.Hour
	}
	return i
}

// Outcome is what became of an entry that was to be moved.
type Outcome int

// The outcomes of an operation on one entry.
const (
	// Gone: it was no longer there with these bytes; nothing was done.
	Gone Outcome = iota
	// Done: this call has done it.
	Done
	// Stopped: client middleware has stopped the job on its way to the queue. It
	// has been removed from the set, as with Sidekiq.
	Stopped
)

// String returns "gone", "done" or "stopped".
func (o Outcome) String() string { return [...]string{"gone", "done", "stopped"}[o] }

// scanPage is the COUNT of the scans, as in Sidekiq.
const scanPage = 100

// members returns a whole set of names, sorted: queues or processes.
func (i *Inspector) members(ctx context.Context, key string) ([]string, error) {
	var all []string
	for cursor := uint64(0); ; {
		page, next, err := i.rdb.SScan(ctx, key, cursor, "", scanPage).Result()
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if cursor = next; cursor == 0 {
			break
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil // a scan may return a name twice
}

// pipelined runs commands in round trips of at most pipeMax and returns the
// first error that is none of a single missing or mistyped key: a key of
// another type holds nothing of ours.
func (i *Inspector) pipelined(ctx context.Context, cmds []redis.Cmder) error {
	for chunk := range slices.Chunk(cmds, pipeMax) {
		pipe := i.rdb.Pipeline()
		for _, cmd := range chunk {
			_ = pipe.Process(ctx, cmd) // only queues it
		}
		_, failed := pipe.Exec(ctx)
		told := false
		for _, cmd := range chunk {
			err := cmd.Err()
			told = told || err != nil
			if err != nil && !absent(err) {
				return err
			}
		}
		if failed != nil && !told {
			return failed // a hook of the given client's
		}
	}
	return nil
}

const pipeMax = 1000

func absent(err error) bool {
	return errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE")
}

// number reads a count as Ruby's to_i would: 0 for anything else.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// timeOf reads the text of a number of seconds; the zero time if it is none.
func timeOf(text string) time.Time {
	var p troupe.Payload
	p.Set("t", []byte(text))
	t, _ := p.Time("t")
	return t
}

// shield runs a callback of the caller's; a panic becomes an error.
func shield(what string, fn func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s: %w", what, &troupe.PanicError{Value: v, Stack: debug.Stack()})
		}
	}()
	fn()
	return nil
}
