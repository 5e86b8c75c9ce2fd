package client

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/words"
)

// Within returns a client whose pushes are part of the job that ctx belongs to: they are kept in memory until its
// handler and all its goroutines have returned, and enter Redis in the very step that acks the job. If the run
// fails, is put off, moved, requeued or given up, or its process dies, none of them is made, and the next run
// makes its own. So what a job pushes is there once for the run that has done it, whatever dies.
//
// It is FromContext's client, with its middleware and defaults; a jid that a push returns is final. The jobs enter
// the Redis of the daemon, which is to be that of Config.Client. They have the jid of the job in their field "t_parent".
//
// A run keeps at most 1,000 jobs and 1 MiB: the next push is a *FieldError, as is one after the end of the run.
// What is more, and what is to be there whatever becomes of the job, is pushed by FromContext. An iterable job
// keeps as much between two saves of its cursor: what its items have pushed enters Redis with the cursor behind
// them, and what the item has pushed that fails is dropped, since it runs again.
//
// A unique job takes its lock in that step, too. If another job holds it by then, it is left out, and an event
// (event.JobDone.Left) tells.
//
// Errors of a queue that takes no job (a key of another type) do not reach the push: the job is not acked until
// they end, which its log line and the health of the daemon tell.
//
// With a ctx that belongs to no job, and in a capsule that cannot do it, each push is a *FieldError that says why.
// These capsules are those of actors.Capsule.Wire and of the basic fetcher. On a Redis Cluster only the queue of the job
// itself is reached, and by no iterable job.
func Within(ctx context.Context) *Client {
	kept, _ := ctx.Value(jobctx.Kept{}).(*job.Kept)
	if kept == nil {
		return notWithin
	}
	c := FromContext(ctx)
	kept.SendBy(func(pushes []job.Push) error {
		pushes, err := c.sendBatches(ctx, pushes)
		if err != nil {
			return err
		}
		entries := make([]entry, len(pushes))
		for i, p := range pushes {
			entries[i] = entry{queue: p.Queue, score: p.Score, raw: p.Payload, lock: p.Lock}
		}
		for _, err := range c.deliver(ctx, entries) {
			if _, duplicate := err.(*DuplicateError); err != nil && !duplicate { //nolint:errorlint // what a job says that it has run is not meant
				return err
			}
		}
		return nil
	})
	own := c.unbuffered()
	own.kept = kept
	return own
}

// unbuffered returns a client with the settings of c, which pushes one by one and buffers nothing.
func (c *Client) unbuffered() *Client {
	return &Client{
		rdb: c.rdb, mw: c.mw, chain: c.chain, spans: c.spans, timestamps: c.timestamps, defaults: c.defaults,
		plain: c.plain, types: c.types, err: c.err, own: c.own, crypt: c.crypt, kept: c.kept,
	}
}

// keep keeps entries for the end of the run.
func (c *Client) keep(entries []entry) []error {
	pushes := make([]job.Push, len(entries))
	for i, e := range entries {
		pushes[i] = job.Push{Queue: e.queue, Score: e.score, Payload: e.raw, Lock: e.lock}
	}
	if err := keepFault(c.kept.Add(pushes...)); err != nil {
		return same(err, len(entries))
	}
	return nil
}

// keepFault is err of Kept.Add as the push tells it.
func keepFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errchain.Is(err, job.ErrKeptFull):
		err = &FieldError{"client.Within", "more than a run keeps", fmt.Sprintf(
			"%s and %s at most; others are pushed by client.FromContext, at once", words.Plural(job.KeptJobs, "job"), words.Size(job.KeptBytes))}
	case errchain.Is(err, job.ErrEnded):
		err = &FieldError{"client.Within", "a push after the end of the run", "one before it; another client pushes at once"}
	default:
		err = &FieldError{"client.Within", "a push that cannot go with the ack: " + err.Error(), "client.FromContext, which pushes at once"}
	}
	return err
}

var notWithin = func() *Client {
	c := &Client{defaults: builtin(), spans: job.NoSpan, types: new(sync.Map)}
	c.fail(&FieldError{"client.Within", "a context that belongs to no job", "that of a handler"})
	c.plain = &options{fields: c.defaults}
	c.plain.settle(c.err)
	return c
}()

// maxChain is how many jobs a chain has at most.
const maxChain = 1000

// PushChain pushes a chain: the first item at once, and each other one in the step that acks the one before, so
// that it is there once for the run that has done that. The chain ends at a job that dies or is dropped: those
// behind it stay in the field "t_next" of the dead job, and a retry from the dead set carries on with them. It may have
// up to 1,000 jobs and 1 MiB.
//
// The items may have options of their own; a time only the first. On a Redis Cluster all have one queue. All pass the client's
// middleware now. The jobs of a chain must be run by daemons of troupe, in capsules that can push with the ack (see Within): Ruby would end
// the chain at its job without a word, and in other capsules a job with others behind it is not run: it goes to the
// dead set. The jids are in the order of items; with an error nothing was pushed, unless it is an *UnavailableError with Maybe.
func (c *Client) PushChain(ctx context.Context, items ...Item) (jids []string, err error) {
	ctx, b, err := c.bulk(ctx, nil)
	if err == nil && (len(items) == 0 || len(items) > maxChain) {
		err = &FieldError{"items", strconv.Itoa(len(items)), "1 to " + strconv.Itoa(maxChain) + " jobs"}
	}
	if err != nil {
		return nil, fmt.Errorf("push chain: %w", err)
	}
	defer func() { b.span.End(failure(err)) }()
	b.size = len(items) + 1
	b.linked = true
	for i, item := range items {
		if err := b.addItem(ctx, item); err != nil {
			return nil, fmt.Errorf("push chain: job %d of %d: %w", i+1, len(items), err)
		}
	}
	if err := b.flush(ctx); err != nil {
		return nil, fmt.Errorf("push chain: %w", err)
	}
	return b.jids, nil
}

// link makes one entry of those of a chain: the first, with the others behind it.
func link(entries []entry, cluster bool) ([]entry, error) {
	behind, queue := make([]string, len(entries)-1), entries[0].queue
	size := len(entries[0].raw)
	for i, e := range entries[1:] {
		if size += len(e.raw); size > job.KeptBytes {
			return nil, &FieldError{"items", "more than " + words.Size(job.KeptBytes), "a shorter chain, whose last job pushes the next one"}
		}
		if e.lock != nil {
			return nil, &FieldError{"Unique", "it for job " + strconv.Itoa(i+2) + " of a chain", "one for the first job only; there is no push that could refuse another"}
		}
		if e.score != "" {
			return nil, &FieldError{"at", "a time for job " + strconv.Itoa(i+2) + " of a chain", "one for the first job only; the others follow at once"}
		}
		if cluster && e.queue != queue {
			return nil, &FieldError{
				"queue", fmt.Sprintf("%q for job %d of a chain", e.queue, i+2),
				fmt.Sprintf("%q, as of the first job: on a Redis Cluster each queue is in a slot of its own", queue),
			}
		}
		behind[i] = string(e.raw)
	}
	p, err := troupe.ParsePayload(entries[0].raw)
	if err != nil {
		return nil, err
	}
	if len(behind) > 0 {
		job.Chain(p, behind)
	}
	entries[0].raw = p.Bytes()
	return entries[:1], nil
}
