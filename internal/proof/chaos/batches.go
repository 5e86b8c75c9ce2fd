package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/troupehq/troupe/client"
)

// Every ninth job makes a batch of two jobs with its ack, and within it a batch of two more. Each batch has a callback for its success. These
// six have numbers of their own, in the order in which they may begin. The first job of each batch fails at first.
const (
	members, innerCallback, outerCallback = 6, 4, 5
	firstMember                           = 500_000_000
)

func member(n, i int) int { return firstMember + 100_000_000*i + n }

// batches reports whether a job makes batches.
func (t Task) batches() bool { return t.N%9 == 4 && t.N < firstChild }

// waitsFor are the jobs of batches that are done before a job begins.
func waitsFor(c int) (all []int) {
	if c < firstMember || c >= duplicateNum {
		return nil
	}
	first, last := 0, 0
	switch (c - firstMember) / 100_000_000 {
	case innerCallback:
		first, last = 2, innerCallback
	case outerCallback:
		last = outerCallback
	}
	for i := first; i < last; i++ {
		all = append(all, member(c%firstChild, i))
	}
	return all
}

// pushBatches makes the batches of a job.
func pushBatches(ctx context.Context, n int) error {
	item := func(i int) client.Item {
		return client.Job(args{Task{N: member(n, i), Run: time.Now().UnixNano(), Takes: 5 * time.Millisecond, Fails: i == 0 || i == 2}})
	}
	push := func(b *client.Batch, first int) error {
		for i := first; i < first+2; i++ {
			if _, err := b.PushMany(ctx, item(i)); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := client.Within(ctx).Batch(ctx, client.BatchOptions{Success: item(outerCallback)}, func(outer *client.Batch) error {
		_, err := outer.Batch(ctx, client.BatchOptions{Success: item(innerCallback)}, func(inner *client.Batch) error { return push(inner, 2) })
		if err != nil {
			return err
		}
		return push(outer, 0)
	})
	return err
}

// early holds the callbacks of batches against their jobs: each job has come to its end before the callback of its batch begins.
func (s *storm) early(rep *Report, byJob map[int][]*run) {
	for c, of := range byJob {
		waits := waitsFor(c)
		for _, n := range waits {
			ended := false
			for _, r := range byJob[n] {
				ended = ended || r.how == 'd' && r.end.Before(of[0].start)
			}
			if !ended {
				rep.Broken = append(rep.Broken, fmt.Sprintf("callback %d began before job %d of its batch was done\n%s\n%s", c, n, s.story(c, of), s.story(n, byJob[n])))
			}
		}
		if len(waits) > 0 {
			rep.Callbacks++
		}
	}
}
