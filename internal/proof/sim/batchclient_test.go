package sim

import (
	"context"
	"slices"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
)

// What the client does with batches, and people beside it.

// pushBatches is what the client does with batches. From then on it closes what is left open, pushes callbacks that were refused, and may retry dead jobs.
func (w *world) pushBatches() {
	rdb := w.newClient(w.client)
	c := client.New(rdb)
	call := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		return f(ctx)
	}
	go func() {
		defer func() { _ = rdb.Close() }()
		for _, k := range w.book.batches.all {
			if k.maker != nil {
				continue
			}
			time.Sleep(k.plan.After + time.Millisecond) // a world is in a bubble
			if w.client.gone(w) {
				return
			}
			err := call(func(ctx context.Context) error { return k.make(ctx, c, w) })
			w.changeBatch(c, k, err == nil, call)
			for _, below := range k.below {
				w.changeBatch(c, below, err == nil, call)
			}
		}
		w.clientEnds()
		for {
			time.Sleep(betweenLooks) // a world is in a bubble
			if w.client.gone(w) {
				return
			}
			closes, revives, missing := w.book.leftToDo()
			for _, k := range closes {
				k.closing = true
				_ = call(func(ctx context.Context) error { return c.CloseBatch(ctx, k.id) })
			}
			for _, s := range revives {
				_ = call(func(ctx context.Context) error {
					e, err := inspect.New(rdb).DeadSet.FindJob(ctx, s.jid())
					if err == nil && e != nil {
						_, err = e.Retry(ctx)
					}
					return err
				})
			}
			for _, k := range missing {
				_ = call(func(ctx context.Context) error {
					got, err := inspect.New(rdb).Batch(ctx, k.id)
					if err == nil {
						_, err = got.CountOut(ctx, time.Second)
					}
					return err
				})
			}
		}
	}()
}

// changeBatch grows, closes and cancels a batch, as its plan says.
func (w *world) changeBatch(c *client.Client, k *batch, made bool, call func(func(context.Context) error) error) {
	if k.plan.Open && made {
		if len(k.grown) > 0 {
			time.Sleep(k.plan.Closes + time.Millisecond) // likewise
			_ = call(func(ctx context.Context) error {
				return c.GrowBatch(ctx, k.id, func(in *client.Batch) error { return pushInto(ctx, in, w, k.grown) })
			})
		}
		time.Sleep(k.plan.Closes + time.Millisecond) // likewise
		k.closing = true
		_ = call(func(ctx context.Context) error { return c.CloseBatch(ctx, k.id) })
	}
	if k.plan.Cancels > 0 && k.id != "" {
		time.Sleep(k.plan.Cancels) // likewise
		_ = call(func(ctx context.Context) error { return c.CancelBatch(ctx, k.id) })
	}
}

// leftToDo is which batches are to be closed: they are open since a fault has come between, or a queue has refused a callback;
// which dead jobs are to be retried, each once; and, when all jobs have ended, which batches wait for those that Ruby has run.
func (b *book) leftToDo() (closes []*batch, revives []*state, missing []*batch) {
	finished := b.finished()
	for _, k := range b.batches.all {
		switch {
		case !k.there || k.success || !k.cancelled.IsZero():
		case !k.closed || slices.Contains(k.refused[:], true):
			closes = append(closes, k)
		case finished && b.misses(k):
			missing = append(missing, k)
		}
	}
	for _, s := range b.allJobs() {
		if b.w.plan.Revives && s.plan.Dies && !s.revived && slices.Contains(b.where[s.name], keys.Dead) {
			revives = append(revives, s)
		}
	}
	if len(revives) > 0 {
		missing = nil // Ruby may run them, unseen
	}
	return closes, revives, missing
}

// batchesWait reports whether batches wait for the client.
func (b *book) batchesWait() bool {
	closes, revives, missing := b.leftToDo()
	return len(closes)+len(revives)+len(missing) > 0
}
