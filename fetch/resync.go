package fetch

import (
	"cmp"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	maxBatchBytes = 4 << 20 // of what one call writes back
	maxBatch      = 1000
	pageTries     = 3 // to read a single job, until it is set aside
)

// state is what begin returns of a place.
type state struct {
	gen, last uint64
	existed   bool
	fields    map[string]string
}

// resync finds out under a new generation what became of a doubtful call, and compares
// every list that may not be as expected with what is in hand. It is our turn.
func (p *place) resync(ctx context.Context) error {
	f := p.in.f
	f.mu.Lock()
	lapsed := p.lapsed
	p.lapsed = false
	f.mu.Unlock()
	p.doubt = p.doubt || lapsed
	s, err := p.begin(ctx)
	if err != nil {
		p.doubt = true
		return err
	}
	done := p.pending != nil && s.last == p.number
	fellBack := p.opened && (!s.existed || s.gen < p.gen || s.last != p.last && !done)
	if p.opened && !fellBack && done {
		p.pending()
	}
	p.torn = p.torn || fellBack
	p.pending, p.last, p.number = nil, s.last, max(p.number, s.last)
	p.gen, p.opened, p.doubt = p.asked, true, true
	f.mu.Lock()
	p.known = p.gen
	f.mu.Unlock()
	if fellBack {
		f.env.Logger.Warn().Str("fetcher", p.in.id).Str("place", p.key).
			Msg("redis has fallen back to older data; comparing all that is in progress")
		f.mu.Lock()
		for _, other := range p.in.places {
			other.lapsed = other.lapsed || other != p
		}
		f.mu.Unlock()
		if err := f.renew(ctx, p.in); err != nil { // the lease may be gone as well
			return err
		}
	}
	if err := p.compareAll(ctx, s); err != nil {
		return err
	}
	p.doubt, p.torn, p.owed = false, false, nil
	return nil
}

// begin raises the generation.
func (p *place) begin(ctx context.Context) (*state, error) {
	f := p.in.f
	args := []any{nil, p.in.id, f.value}
	for _, w := range p.waiters {
		args = append(args, w.list.field, f.names[w.queue])
	}
	for tries := 0; ; tries++ {
		p.asked = max(p.asked, p.gen) + 1
		args[0] = p.asked
		reply, err := beginScript.Run(ctx, f.rdb, []string{p.key, p.registry}, args...).StringSlice()
		switch {
		case hasPrefix(err, "FENCED"):
			return nil, f.fenced(p.in)
		case hasPrefix(err, "FOREIGN"):
			mark := strings.Fields(err.Error())
			gen, _ := strconv.ParseUint(mark[1], 10, 64)
			if gen == p.asked && tries < 3 { // a client that repeats silently
				continue
			}
			f.env.Logger.Error().Str("fetcher", p.in.id).Msg("another process uses the identity of this one; taking a new one")
			return nil, f.fenced(p.in)
		case err != nil:
			return nil, err
		}
		s := &state{existed: reply[0] != "", fields: make(map[string]string)}
		s.gen, _ = strconv.ParseUint(reply[0], 10, 64)
		s.last, _ = strconv.ParseUint(reply[1], 10, 64)
		for pair := range slices.Chunk(reply[2:], 2) {
			s.fields[pair[0]] = pair[1]
		}
		return s, nil
	}
}

// compareAll compares the lists that may not be as expected. A waiting list that a
// blocked move is open for is left to its waiter.
func (p *place) compareAll(ctx context.Context, s *state) error {
	f := p.in.f
	var lists []*list
	f.mu.Lock()
	for field, value := range s.fields {
		l := p.lists[field]
		if l == nil {
			l = p.found(field, value)
		}
		if l != nil {
			lists = append(lists, l)
		}
	}
	for field, l := range p.lists {
		if _, known := s.fields[field]; !known {
			lists = append(lists, l)
		}
	}
	for _, w := range p.waiters {
		if w.open {
			w.compare, w.all = true, w.all || p.torn || p.owed[w.list]
			w.list.dropUnsure(func(*held) bool { return true }) // what was refused will be adopted
			lists = slices.DeleteFunc(lists, func(l *list) bool { return l == w.list })
		}
	}
	f.mu.Unlock()
	if len(lists) == 0 {
		return nil
	}
	// the oldest claims first, then waiting lists: in this order they are run
	slices.SortFunc(lists, func(a, b *list) int { return compareFields(a.field, b.field) })
	lengths := make([]*redis.IntCmd, len(lists))
	if _, err := f.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, l := range lists {
			lengths[i] = pipe.LLen(ctx, l.key)
		}
		return nil
	}); err != nil && !isReply(err) {
		return err
	}
	for i, l := range lists {
		f.mu.Lock()
		same := !p.torn && !p.owed[l] && lengths[i].Err() == nil && int(lengths[i].Val()) == len(l.held)
		f.mu.Unlock()
		if same {
			continue
		}
		if err := lengths[i].Err(); err != nil {
			return fmt.Errorf("%s: %w", l.key, err)
		}
		if err := p.compare(ctx, l, int(lengths[i].Val())); err != nil {
			return err
		}
	}
	return nil
}

// found is a list that the place names and we do not know. f.mu is held.
func (p *place) found(field, value string) *list {
	f := p.in.f
	name, at, _ := cutLast(value, ' ')
	queue, suspect := name, false
	i, known := f.index[queue]
	if !known {
		if queue, suspect = splitName(name); suspect {
			i, known = f.index[queue]
		}
	}
	if !known {
		return nil // of a queue that nobody here knows; a rescuer will see to it
	}
	// Its jobs get numbers that none had before: a receipt of an earlier one is void.
	l := &list{field: field, key: p.slot.List(p.in.id, field), queue: i, suspect: suspect, next: p.gen << 32}
	l.since, _ = strconv.ParseInt(at, 10, 64)
	return l
}

// compare reads a list of n jobs. What is there and not in hand is adopted, and runs
// (again): it is never acked, since a retry of it may have been forgotten as well. What
// is in hand and not there is written back. It is our turn.
func (p *place) compare(ctx context.Context, l *list, n int) error {
	f := p.in.f
	f.mu.Lock()
	hand := make(map[string]int, len(l.held))
	for i := range l.held {
		hand[string(l.held[i].payload)]++
	}
	f.mu.Unlock()
	var more [][]byte
	for read := 0; read < n; {
		jobs, err := p.readPage(ctx, l, read, n)
		if err != nil {
			return err
		}
		if len(jobs) == 0 {
			break
		}
		for _, job := range slices.Backward(jobs) { // the oldest is on the right
			if hand[job] > 0 {
				hand[job]--
			} else {
				more = append(more, bytesOf(job))
			}
		}
		read += len(jobs)
	}
	var missing []held
	f.mu.Lock()
	l.dropUnsure(func(h *held) bool {
		hand[string(h.payload)]--
		return hand[string(h.payload)] >= 0
	})
	if len(l.held) == 0 && !l.waits() {
		delete(p.lists, l.field)
	}
	for _, h := range l.held {
		if hand[string(h.payload)] > 0 {
			hand[string(h.payload)]--
			missing = append(missing, h)
		}
	}
	if len(more) > 0 {
		p.lists[l.field] = l
		f.stash = append(f.stash, l.add(p.in, more...)...)
		f.wake()
	}
	f.mu.Unlock()
	return p.restore(ctx, l, missing)
}

// readPage reads the next jobs of a list, from its right end, down to one at a time.
// A reply that does not come is asked for in smaller pieces; a job that does not come by
// itself is set aside on the server.
func (p *place) readPage(ctx context.Context, l *list, read, n int) ([]string, error) {
	if p.page == 0 {
		p.page = maxBatch
	}
	most := min(p.page, n-read)
	jobs, err := p.in.f.rdb.LRange(ctx, l.key, int64(-read-most), int64(-read-1)).Result()
	switch {
	case err == nil:
		p.page = min(2*p.page, maxBatch)
		return jobs, nil
	case isReply(err) || ctx.Err() != nil:
		return nil, err
	case most > 1:
		p.page = max(1, most/2)
		return nil, err
	}
	job, aside := p.setAside(ctx, l, -read-1)
	if job != "" {
		return []string{job}, nil
	}
	return nil, errors.Join(err, aside)
}

// setAside takes a job that cannot be read out of a list, or returns it if it is in hand.
func (p *place) setAside(ctx context.Context, l *list, index int) (inHand string, err error) {
	f := p.in.f
	queue := f.names[l.queue]
	dead, score := keys.Dead, strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', -1, 64)
	if f.cluster { // where the dead set lies in another slot
		dead, score = keys.ClusterUnreadable(queue), ""
	}
	args := []any{l.field, index, score}
	f.mu.Lock()
	hand := make(map[string]string, len(l.held))
	for i := range l.held {
		digest := fmt.Sprintf("%x", sha1.Sum(l.held[i].payload)) //nolint:gosec // as in the script
		hand[digest] = string(l.held[i].payload)
		args = append(args, digest)
	}
	f.mu.Unlock()
	reply, err := p.call(ctx, asideScript, []string{l.key, keys.Queue(queue), dead, p.slot.Unread()}, args, func() {})
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

// restore writes jobs back. It is our turn.
func (p *place) restore(ctx context.Context, l *list, missing []held) error {
	for len(missing) > 0 {
		size, n := 0, 0
		args := []any{l.field, l.value(p.in.f)}
		for n < min(len(missing), maxBatch) && (n == 0 || size < maxBatchBytes) {
			h := missing[len(missing)-1-n] // the newest first
			args, size, n = append(args, h.payload), size+len(h.payload), n+1
		}
		// A batch is the newest of what is left: it must be under the older ones.
		if _, err := p.call(ctx, restoreScript, []string{l.key}, args, func() {}); err != nil {
			p.doubt, p.torn = true, true
			return fmt.Errorf("write back what is in progress: %w", err)
		}
		p.doubt = true // the comparison is not through
		missing = missing[:len(missing)-n]
	}
	return nil
}

// compareFields sorts claims by number of their call, and waiting lists behind them.
func compareFields(a, b string) int {
	wa, wb := isWaiting(a), isWaiting(b)
	switch {
	case wa != wb && wa:
		return 1
	case wa != wb:
		return -1
	case wa:
		return strings.Compare(a, b)
	}
	callA, nA, _ := strings.Cut(a, ".")
	callB, nB, _ := strings.Cut(b, ".")
	return cmp.Or(len(callA)-len(callB), strings.Compare(callA, callB), len(nA)-len(nB), strings.Compare(nA, nB))
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
