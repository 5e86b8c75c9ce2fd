package fetch

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

// comparison is how far a list was read when a reply did not come: the next try goes on
// there. A call of the index ends it, and so does a job that a blocked move brings.
type comparison struct {
	field string // of the list
	next  uint64 // of the list when the comparison began
	read  int
	hand  map[string]int // bytes in hand that were not found yet
	more  []string       // found and not in hand
}

// compare reads a list of n jobs. What is there and not in hand is adopted, and runs
// (again): it is never acked, since a retry of it may have been forgotten as well. What
// is in hand and not there is written back. The call lock is held.
func (p *index) compare(ctx context.Context, l *list, n int) error {
	f := p.in.f
	f.mu.Lock()
	c := p.partial
	if c == nil || c.field != l.field || c.next != l.next {
		c = &comparison{field: l.field, next: l.next, hand: make(map[string]int, len(l.inHand))}
		for i := range l.inHand {
			c.hand[string(l.inHand[i].payload)]++
		}
	}
	f.mu.Unlock()
	for c.read < n {
		p.partial = c
		jobs, err := p.readPage(ctx, l, c.read, n)
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			break
		}
		for _, job := range slices.Backward(jobs) { // the oldest is on the right
			if c.hand[job] > 0 {
				c.hand[job]--
			} else {
				c.more = append(c.more, job)
			}
		}
		c.read += len(jobs)
	}
	p.partial = nil
	hand, more := c.hand, c.more
	var missing []takenJob
	f.mu.Lock()
	l.dropUnsure(func(h *takenJob) bool {
		hand[string(h.payload)]--
		return hand[string(h.payload)] >= 0
	})
	l.mustRead = false
	p.tidyLocked(l)
	for _, h := range l.inHand {
		if hand[string(h.payload)] > 0 {
			hand[string(h.payload)]--
			missing = append(missing, h)
		}
	}
	l.mixed = l.mixed || len(more)+len(missing) > 0
	if len(more) > 0 {
		p.lists[l.field] = l
		l.addLocked(p.in, more...)
		f.wakeLocked()
	}
	f.mu.Unlock()
	return p.restore(ctx, l, missing)
}

// readPage reads the next jobs of a list, from its right end, down to one at a time.
// A reply that does not come is asked for in smaller pieces until all has been compared;
// a job that does not come by itself is set aside on the server.
func (p *index) readPage(ctx context.Context, l *list, read, n int) ([]string, error) {
	if p.page == 0 {
		p.page = maxBatch
	}
	most := min(p.page, n-read)
	jobs, err := p.in.f.rdb.LRange(ctx, l.key, int64(-read-most), int64(-read-1)).Result()
	switch {
	case err == nil:
		return jobs, nil
	case redisconn.IsReply(err) || ctx.Err() != nil:
		return nil, err
	case most > 1:
		p.page = max(1, most/2)
		return nil, err
	}
	job, failed := p.tooLarge(ctx, l, -read-1)
	if job != "" {
		return []string{job}, nil
	}
	return nil, errors.Join(err, failed)
}

// tooLarge takes a job that cannot be read out of a list, or returns it if it is in hand.
func (p *index) tooLarge(ctx context.Context, l *list, at int) (inHand string, err error) {
	f := p.in.f
	queue := f.set.Load().names[l.queue]
	dead, score := keys.Dead, strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', -1, 64)
	if f.cluster { // where the dead set lies in another slot
		dead, score = keys.ClusterUnreadable(queue), ""
	}
	args := []any{l.field, at, score}
	f.mu.Lock()
	hand := make(map[string]string, len(l.inHand))
	for i := range l.inHand {
		digest := fmt.Sprintf("%x", sha1.Sum(l.inHand[i].payload)) //nolint:gosec // as in the script
		hand[digest] = string(l.inHand[i].payload)
		args = append(args, digest)
	}
	f.mu.Unlock()
	reply, err := p.call(ctx, tooLargeScript, []string{l.key, keys.Queue(queue), dead, p.slot.Unread()}, args, func() {})
	p.doubt = true // the comparison is not through
	switch {
	case err != nil:
		return "", err
	case reply[0] == "hand":
		return hand[reply[1]], nil
	case reply[0] != "":
		f.env.Logger.Error().Str("queue", queue).Str("to", reply[1]).
			Msg("a job is larger than what the connection to redis carries within its time-out; it was put aside unread")
	}
	return "", nil
}

// restore writes jobs back. The call lock is held.
func (p *index) restore(ctx context.Context, l *list, missing []takenJob) error {
	for len(missing) > 0 {
		size, n := 0, 0
		args := []any{l.field, fmt.Sprint(keys.ListName(p.in.f.set.Load().names[l.queue], l.suspect), " ", time.Now().UnixMilli())}
		for n < min(len(missing), maxBatch) && (n == 0 || size < maxBatchBytes) {
			h := missing[len(missing)-1-n] // the newest first
			args, size, n = append(args, h.payload), size+len(h.payload), n+1
		}
		// A batch is the newest of what is left: it must be under the older ones.
		if _, err := p.call(ctx, restoreScript, []string{l.key}, args, func() {}); err != nil {
			p.doubt, p.fellBack = true, true
			return fmt.Errorf("write back what is in progress: %w", err)
		}
		p.doubt = true // the comparison is not through
		missing = missing[:len(missing)-n]
	}
	return nil
}
