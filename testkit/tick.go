package testkit

import (
	"context"
	"time"

	"github.com/troupehq/troupe/inspect"
)

// Tick lets a periodic job push. In a bubble time passes until its next tick, as with Skip, and the
// tick is pushed or not, as in production; elsewhere a job is pushed at once, beside the ticks. The
// test fails if there is no such periodic job, or if no job was pushed; else its jid is returned.
func (k *Kit) Tick(name string) (jid string) {
	k.tb.Helper()
	ctx := context.Background()
	job, err := inspect.New(k.Redis).PeriodicJob(ctx, name, "")
	if err != nil {
		k.tb.Fatalf("Tick: %v", err)
	}
	if !inBubble() {
		if jid, err = job.Push(ctx); err != nil || jid == "" {
			k.tb.Fatalf("Tick: push a job of periodic job %q: jid %q, error %v", name, jid, err)
		}
		return jid
	}
	if job.Next.IsZero() {
		k.tb.Fatalf("Tick: periodic job %q has no tick any more: %s", name, job.Why)
	}
	due := job.Next
	k.Skip(time.Until(due))
	k.Await("the tick of periodic job "+name, func() bool {
		job, err = inspect.New(k.Redis).PeriodicJob(ctx, name, "")
		return err == nil && !job.Marked.Before(due)
	})
	if job.Last == nil || !job.Last.At.Equal(due) || job.Last.JID == "" {
		k.tb.Fatalf("Tick: the tick of periodic job %q pushed nothing: %s", name, job.Why)
	}
	return job.Last.JID
}
