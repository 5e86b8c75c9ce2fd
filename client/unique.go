package client

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

// Unique makes the job of this push unique: see troupe.Unique. It counts before the Unique of the Defaults of
// the job's type.
//
// The lock is taken in the step that pushes the job: while another job holds it, the push is a *DuplicateError. A
// push that is repeated with the same jid (see JID), since its reply was lost, makes no second job. A client WithBuffer
// does not buffer unique jobs: while Redis is away the push fails. On a Redis Cluster the lock is taken first, and the
// job pushed in a second step.
func Unique(u troupe.Unique) Option {
	return func(o *options) {
		if err := u.Validate(); err != nil {
			o.fail(fielded(err))
			return
		}
		o.unique = &u
	}
}

// NotUnique makes the job of this push not unique, though the Defaults of its type are.
func NotUnique() Option { return func(o *options) { o.unique = nil } }

// DuplicateError is a push of a unique job that was not made, since another job holds its lock. Nothing is wrong. In
// a bulk push the jid of such a job is "", the others are pushed, and the error is a *StoppedError that
// has it.
type DuplicateError struct {
	Holder string // jid of the job that holds the lock
	Lock   string // key of the lock, as `troupe locks` names it
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("duplicate: job %s holds the lock %s", e.Holder, e.Lock)
}

// Is tells that a duplicate is a push that was stopped (ErrStopped), for who treats both alike.
func (e *DuplicateError) Is(target error) bool { return target == ErrStopped }

//go:embed unique.lua
var uniqueSource string

var uniqueScript = script.New("client.unique", uniqueSource)

// anyUnique tells whether some of the jobs are unique.
func anyUnique(entries []entry) bool {
	return slices.ContainsFunc(entries, func(e entry) bool { return e.lock != nil })
}

// sendMixed pushes entries of which some are unique, as send does: the others first.
func (c *Client) sendMixed(ctx context.Context, entries []entry) []error {
	if redisconn.OnCluster(c.rdb) {
		return c.sendUniqueApart(ctx, entries)
	}
	var unique, others []entry
	var at, otherAt []int
	for i, e := range entries {
		if e.lock != nil {
			unique, at = append(unique, e), append(at, i)
		} else {
			others, otherAt = append(others, e), append(otherAt, i)
		}
	}
	errs := make([]error, len(entries))
	for k, err := range c.send(ctx, others) {
		errs[otherAt[k]] = err
	}
	for k, err := range c.sendUnique(ctx, unique) {
		errs[at[k]] = err
	}
	if first(errs) == nil {
		return nil
	}
	return errs
}

// sendUnique pushes unique entries. What is sent again does nothing again, by go-redis or by the caller.
func (c *Client) sendUnique(ctx context.Context, entries []entry) []error {
	names := []string{keys.Queues, keys.Schedule, keys.Conflicts}
	numbers := map[string]int{}
	number := func(key string) int {
		n, ok := numbers[key]
		if !ok {
			names = append(names, key)
			n = len(names)
			numbers[key] = n
		}
		return n
	}
	args := make([]any, 0, 8*len(entries))
	for _, e := range entries {
		var queue, noted any = "", ""
		if e.score == "" {
			queue = number(keys.Queue(e.queue))
		}
		if e.lock.EndsWithJob() {
			noted = 1
		}
		args = append(args, number(e.lock.Key), e.lock.JID, e.lock.For.Milliseconds(), queue, e.queue, e.score, e.raw, noted)
	}
	reply, err := uniqueScript.Run(ctx, c.rdb, names, args...).StringSlice()
	if err == nil && len(reply) != len(entries) {
		err = fmt.Errorf("%d replies to a push of %d jobs", len(reply), len(entries))
	}
	if err != nil {
		return same(unavailable(err, !redisconn.NotSent(err)), len(entries))
	}
	var errs []error
	for i, text := range reply {
		var err error
		switch {
		case text == "a" && entries[i].lock.Old: // a job from retry, say, that is pushed anew
			err = first(c.send(ctx, entries[i:i+1]))
		case text == "" || text == "a":
			continue
		case text[0] == 'd':
			err = &DuplicateError{Holder: text[1:], Lock: entries[i].lock.Key}
		default:
			err = unavailable(refusal(text[1:]), false)
		}
		if errs == nil {
			errs = make([]error, len(entries))
		}
		errs[i] = err
	}
	return errs
}

// sendUniqueApart takes the locks, and pushes the jobs that have got theirs in a second step. The lock of a job that was
// not pushed is freed again, as far as that can be known.
func (c *Client) sendUniqueApart(ctx context.Context, entries []entry) []error {
	errs := make([]error, len(entries))
	var mine []entry
	var at []int
	for i, e := range entries {
		if e.lock != nil {
			taken, err := c.rdb.SetNX(ctx, e.lock.Key, e.lock.JID, e.lock.For).Result()
			if err == nil && !taken {
				var holder string
				if holder, err = c.rdb.Get(ctx, e.lock.Key).Result(); errors.Is(err, redis.Nil) {
					err = nil
				}
				if err == nil && holder != e.lock.JID {
					if e.lock.EndsWithJob() {
						_ = c.rdb.HSet(ctx, keys.Conflicts, e.lock.Key, holder).Err() // worth less than the answer
					}
					err = &DuplicateError{Holder: holder, Lock: e.lock.Key}
				}
			}
			if err != nil {
				errs[i] = unavailable(err, false)
				continue
			}
		}
		mine, at = append(mine, e), append(at, i)
	}
	for k, err := range c.send(ctx, mine) {
		errs[at[k]] = err
		u, _ := errchain.As[*UnavailableError](err)
		if err != nil && mine[k].lock != nil && (u == nil || !u.Maybe) {
			_ = c.rdb.Del(ctx, mine[k].lock.Key).Err()
		}
	}
	if first(errs) == nil {
		return nil
	}
	return errs
}
