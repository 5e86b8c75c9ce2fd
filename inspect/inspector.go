package inspect

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/keys"
)

// Errors that say why there is nothing to return or to do.
var (
	// ErrNotFound: no such job, entry, process or tree.
	ErrNotFound = errors.New("not found")

	// ErrEmbedded: the process is part of somebody else's program and takes no
	// Quiet and Stop.
	ErrEmbedded = errors.New("an embedded process cannot be quieted or stopped from outside")
)

// Shown is how many bytes of a job pages and commands read: a MaxRead.
const Shown = 64 << 10

// Inspector is the entry to the data API. It keeps nothing in memory and is
// safe for concurrent use, as are the values it returns. Its fields may be set before the
// first use.
type Inspector struct {
	// Client is the client whose middleware, defaults and timestamps apply to jobs that
	// go back into a queue (SortedEntry.Retry and AddToQueue).
	Client *client.Client

	// DeadMax and DeadTimeout bound the dead set whenever something is killed: it keeps
	// DeadMax-1 entries, as Sidekiq does, none older than DeadTimeout. 0 and less mean
	// unbounded. Set them to what the daemons are configured with, if at all: each daemon
	// bounds the set by itself when a job dies, and smaller numbers here would delete what
	// it keeps.
	DeadMax     int
	DeadTimeout time.Duration

	// MaxRead bounds how many bytes of a job are read to be shown, see JobRecord: 0 means all.
	// Operations work on the whole. Redis cuts by a script that only reads; a user who may not call
	// scripts reads whole jobs, one by one, and keeps no more of them than that.
	MaxRead int

	// RetrySet holds the jobs that have failed and wait; score: the next attempt.
	RetrySet *JobSet
	// ScheduledSet holds the jobs pushed for later; score: when they are due.
	ScheduledSet *JobSet
	// DeadSet holds the jobs that will not run again by themselves, some of them bytes
	// that are no job; score: the time of death.
	DeadSet *JobSet

	rdb       redis.UniversalClient
	noScripts atomic.Bool // they are refused
}

// New returns an Inspector of the database of rdb. It pushes with client.New(rdb), does not bound the dead
// set, and never closes rdb. New sends nothing. If rdb is nil, every call returns an error that says so, as
// does the zero value of each type of this package.
func New(rdb redis.UniversalClient) *Inspector {
	i := &Inspector{rdb: rdb, Client: client.New(rdb)}
	if v := reflect.ValueOf(rdb); v.Kind() == reflect.Pointer && v.IsNil() {
		i.rdb = nil
	}
	i.RetrySet, i.ScheduledSet, i.DeadSet = &JobSet{Name: keys.Retry, i: i}, &JobSet{Name: keys.Schedule, i: i}, &JobSet{Name: keys.Dead, i: i}
	return i
}

// Outcome is what became of an entry that was to be moved.
type Outcome string

// The outcomes of an operation on one entry.
const (
	// Gone: it was no longer there with these bytes; nothing was done.
	Gone Outcome = "gone"
	// Done: this call has done it.
	Done Outcome = "done"
	// Stopped: client middleware has stopped the job on its way to the queue. It
	// has been removed from the set, as with Sidekiq.
	Stopped Outcome = "stopped"
)

// scanPage is the COUNT of the scans, as in Sidekiq.
const scanPage = 100

// members returns a whole set of names, sorted: queues or processes.
func (i *Inspector) members(ctx context.Context, key string) ([]string, error) {
	var all []string
	for cursor := uint64(0); ; {
		page, next, err := i.db().SScan(ctx, key, cursor, "", scanPage).Result()
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
		pipe := i.db().Pipeline()
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
