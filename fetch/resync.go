package fetch

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

const (
	maxBatchBytes = 4 << 20 // of what one call writes back
	maxBatch      = 1000
	pageTries     = 3 // to read a single job, until it is set aside
)

// resync finds out under a new generation what became of a doubtful call, and compares
// every list that may not be as expected with what is in hand. The call lock is held.
func (p *index) resync(ctx context.Context) error {
	f := p.in.f
	f.mu.Lock()
	lapsed := p.lapsed
	p.lapsed = false
	f.mu.Unlock()
	p.doubt = p.doubt || lapsed
	gen, last, fields, err := p.begin(ctx)
	if err != nil {
		p.doubt = true
		return err
	}
	done := p.pending != nil && last == p.number
	fellBack := p.gen > 0 && (gen < p.gen || last != p.last && !done)
	f.mu.Lock()
	if p.gen > 0 && !fellBack && done {
		p.pending()
	}
	p.gen = p.asked
	f.mu.Unlock()
	p.fellBack = p.fellBack || fellBack
	p.pending, p.last, p.number, p.doubt = nil, last, max(p.number, last), true
	if fellBack {
		p.partial = nil
		f.env.Logger.Warn().Str("fetcher", p.in.id).Str("index", p.key).
			Msg("redis has fallen back to older data; comparing all that is in progress")
		f.mu.Lock()
		for _, other := range p.in.indexes {
			other.lapsed = other.lapsed || other != p
		}
		f.mu.Unlock()
		if err := f.renew(ctx, p.in); err != nil { // the lease may be gone as well
			return err
		}
	}
	if err := p.compareAll(ctx, fields); err != nil {
		return err
	}
	p.doubt, p.fellBack = false, false
	p.page = min(2*p.page, maxBatch)
	return nil
}

// begin raises the generation, and returns the one before, 0 for an index that did not exist,
// the number of the last call, and what the lists are.
func (p *index) begin(ctx context.Context) (gen, last uint64, fields map[string]string, err error) {
	f := p.in.f
	args := []any{nil, p.in.id, f.set.Load().value}
	for _, w := range p.waiters {
		args = append(args, w.list.field, f.set.Load().names[w.queue])
	}
	for tries := 0; ; tries++ {
		p.asked = max(p.asked, p.gen) + 1
		args[0] = p.asked
		reply, err := beginScript.Run(ctx, f.rdb, []string{p.key, p.registry}, args...).StringSlice()
		switch {
		case redisconn.HasPrefix(err, "FENCED"):
			return 0, 0, nil, f.fenced(p.in)
		case redisconn.HasPrefix(err, "FOREIGN"):
			mark := strings.Fields(err.Error())
			gen, _ := strconv.ParseUint(mark[1], 10, 64)
			if gen == p.asked && tries < 3 { // a client that repeats silently
				continue
			}
			f.env.Logger.Error().Str("fetcher", p.in.id).Msg("another process uses the identity of this one; taking a new one")
			return 0, 0, nil, f.fenced(p.in)
		case err != nil:
			return 0, 0, nil, err
		}
		gen, _ = strconv.ParseUint(reply[0], 10, 64)
		last, _ = strconv.ParseUint(reply[1], 10, 64)
		return gen, last, keys.Fields(reply[2:]), nil
	}
}

// compareAll compares the lists that may not be as expected. A waiting list that a
// blocked move is open for is left to its waiter.
func (p *index) compareAll(ctx context.Context, fields map[string]string) error {
	f := p.in.f
	var lists, open []*list
	f.mu.Lock()
	for field, value := range fields {
		l := p.lists[field]
		if l == nil {
			l = p.foundLocked(field, value)
		}
		if l != nil {
			lists = append(lists, l)
		}
	}
	for field, l := range p.lists {
		if _, known := fields[field]; !known {
			lists = append(lists, l)
		}
	}
	for _, w := range p.waiters {
		if w.open {
			w.next, w.list.mustRead = time.Time{}, w.list.mustRead || p.fellBack
			open = append(open, w.list)
			lists = slices.DeleteFunc(lists, func(l *list) bool { return l == w.list })
		} else {
			w.busy = true // what a move brought meanwhile would be adopted, and come by its reply
		}
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, w := range p.waiters {
			w.busy = false
		}
		f.wakeLocked()
	}()
	for _, l := range open {
		if err := p.findRefused(ctx, l); err != nil {
			return err
		}
	}
	if len(lists) == 0 {
		return nil
	}
	// the oldest claims first, then waiting lists: in this order they are run
	slices.SortFunc(lists, func(a, b *list) int { return keys.CompareFields(a.field, b.field) })
	lengths := make([]*redis.IntCmd, len(lists))
	if _, err := f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, l := range lists {
			lengths[i] = pipe.LLen(ctx, l.key)
		}
		return nil
	}); err != nil && !redisconn.IsReply(err) {
		return err
	}
	for i, l := range lists {
		if err := p.check(ctx, l, lengths[i]); err != nil {
			return err
		}
	}
	return nil
}

// findRefused drops what has left a waiting list of the jobs that may have. What else is there is not looked at: a move is
// open, and what it brings meanwhile comes by its reply. The call lock is held.
func (p *index) findRefused(ctx context.Context, l *list) error {
	f := p.in.f
	f.mu.Lock()
	there, unsure := make(map[string]int), false
	for i := range l.inHand {
		if h := &l.inHand[i]; h.unsure {
			unsure = true
		} else {
			there[string(h.payload)]--
		}
	}
	f.mu.Unlock()
	if !unsure {
		return nil
	}
	n, err := f.rdb.LLen(ctx, l.key).Result()
	if err != nil {
		return fmt.Errorf("%s: %w", l.key, err)
	}
	for read := 0; read < int(n); {
		jobs, err := p.readPage(ctx, l, read, int(n))
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			break
		}
		for _, job := range jobs {
			there[job]++
		}
		read += len(jobs)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l.dropUnsure(func(h *takenJob) bool {
		there[string(h.payload)]--
		return there[string(h.payload)] < 0
	})
	return nil
}

// check compares a list unless it is as long as expected. The call lock is held.
func (p *index) check(ctx context.Context, l *list, length *redis.IntCmd) error {
	n, err := length.Result()
	if err != nil {
		return fmt.Errorf("%s: %w", l.key, err)
	}
	p.in.f.mu.Lock()
	same := !p.fellBack && !l.mustRead && int(n) == len(l.inHand)
	p.in.f.mu.Unlock()
	if same {
		return nil
	}
	return p.compare(ctx, l, int(n))
}

// foundLocked is a list that the index names and we do not know.
func (p *index) foundLocked(field, value string) *list {
	f := p.in.f
	queue, suspect := keys.QueueOfList(value, f.set.Load().names)
	i, known := f.set.Load().index[queue]
	if !known {
		return nil // of a queue that nobody here knows; a rescuer will see to it
	}
	// Its jobs get numbers that no job had before, so that the receipts of earlier jobs are void.
	return &list{field: field, key: p.slot.List(p.in.id, field), queue: i, suspect: suspect, next: p.gen << 32}
}
