package fetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/script"
)

var (
	errOver     = errors.New("the incarnation is over")
	errFellBack = errors.New("redis has fallen back: a list is not what it was")
)

// locked is a function that is called with the fetcher's lock held.
type locked func()

// index is the hash in one slot that names every list of jobs that an owner has in
// progress there. Its field `!` holds two numbers: the generation, and the number of the
// last call.
type index struct {
	in       *incarnation
	slot     keys.Slot
	key      string
	registry string

	// callLock is held during a call, so that they are made one at a time: what became of one that was
	// not answered is told by its number.
	callLock chan struct{}

	// Guarded by callLock:
	doubt    bool        // resync before the next call
	fellBack bool        // and read every list
	asked    uint64      // the highest generation that was asked for
	last     uint64      // number of the last call that was carried out, as Redis has it
	number   uint64      // of the last call that was made: none has one twice
	pending  locked      // notes what a doubtful call has done if it was carried out; with the lock
	leaving  bool        // leave was sent
	left     bool        // and carried out
	page     int         // how many jobs of a list are read at once; 0: all
	partial  *comparison // that was broken off

	// Guarded by fetcher.mu:
	lapsed  bool // the lease had run out: a rescuer may have been here
	lists   map[string]*list
	waiters []*waiter
	gen     uint64 // confirmed generation, 0 until the index is opened; written with callLock held
}

func newIndex(in *incarnation, s keys.Slot) *index {
	return &index{
		in: in, slot: s, key: s.Index(in.id), registry: s.Registry(),
		callLock: make(chan struct{}, 1), lists: make(map[string]*list),
	}
}

// addWaiters gives each queue its waiters, with their lists, as far as there may be so many.
func (in *incarnation) addWaiters() {
	set := in.f.set.Load()
	for n := range max(1, in.f.env.Waiters) {
		for q, name := range set.names {
			if in.serving() == limits.MaxWaiters {
				return
			}
			field := "w:" + name
			if n > 0 {
				field = "w" + strconv.Itoa(n+1) + ":" + name
			}
			p := in.indexOf(name)
			if set.former[q] || p.lists[field] != nil {
				continue
			}
			w := &waiter{in: in, p: p, queue: q, list: &list{field: field, key: p.slot.List(in.id, field), queue: q}}
			p.lists[field] = w.list
			p.waiters, in.waiters = append(p.waiters, w), append(in.waiters, w)
		}
	}
}

// withCallLock runs fn with the call lock held, unless ctx ends first.
func (p *index) withCallLock(ctx context.Context, fn func() error) error {
	select {
	case p.callLock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.callLock }()
	return fn()
}

// try runs fn, which makes a call, when nothing is in doubt. It runs it again when Redis
// refused the call since it remembers another one as the last.
func (p *index) try(ctx context.Context, fn func() error) error {
	return p.withCallLock(ctx, func() error {
		for again := false; ; again = true {
			if err := p.ready(ctx); err != nil {
				return err
			}
			err := fn()
			if err == nil || again || !redisconn.HasPrefix(err, "STALE", "MISSING") && !errors.Is(err, errFellBack) {
				return err
			}
		}
	})
}

// ready makes sure of the lease and that nothing is in doubt. The call lock is held.
func (p *index) ready(ctx context.Context) error {
	f := p.in.f
	f.mu.Lock()
	over, fresh := p.in.over, f.freshLocked(f.env.Lease/3)
	f.mu.Unlock()
	switch {
	case over:
		return errOver
	case p.leaving:
		return nil
	}
	if !fresh {
		if err := f.renew(ctx, p.in); err != nil {
			return fmt.Errorf("renew: %w", err)
		}
	}
	f.mu.Lock()
	doubt := p.doubt || p.lapsed || p.gen == 0
	f.mu.Unlock()
	if !doubt {
		return nil
	}
	if err := p.resync(ctx); err != nil {
		return fmt.Errorf("resync: %w", err)
	}
	return nil
}

// probe makes ready an index, and sure that Redis knows of the last call: while long jobs run
// there may be none for hours, and a fence or a fallback is to be seen at the next beat. The call
// lock is held.
func (p *index) probe(ctx context.Context) error {
	if err := p.ready(ctx); err != nil {
		return err
	}
	mark, err := p.in.f.rdb.HGet(ctx, p.key, "!").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if mark == p.mark() {
		return nil
	}
	p.doubt = true
	return p.ready(ctx)
}

// mark is what `!` of the index says, as far as we know.
func (p *index) mark() string {
	return strconv.FormatUint(p.gen, 10) + " " + strconv.FormatUint(p.last, 10)
}

// call makes a numbered call; done is what it does if it is carried out. The call lock
// is held. Until there is an answer the call is in doubt, also if it panics.
func (p *index) call(ctx context.Context, s *script.Script, keys []string, args []any, done locked) ([]string, error) {
	p.number++
	all := make([]any, 0, 6+len(keys)+len(args))
	all = append(all, nil, nil, 1+len(keys), p.key)
	for i := range keys {
		all = append(all, &keys[i])
	}
	all = append(append(all, p.mark(), p.number), args...)
	p.doubt, p.pending, p.partial = true, done, nil
	reply, err := s.Flat(ctx, p.in.f.rdb, all)
	if redisconn.HasPrefix(err, "FENCED") {
		return nil, p.in.f.fenced(p.in)
	}
	if err != nil {
		return nil, err
	}
	p.doubt, p.pending = false, nil
	if len(reply) == 1 && reply[0] == "nothing" { // see take.lua
		return nil, nil
	}
	p.last = p.number
	return reply, nil
}

// lookupLocked finds the list and number of a unit, if it is in hand.
func (p *index) lookupLocked(u *Unit) (*list, uint64, bool) {
	field, n, ok := parseReceipt(u.Receipt)
	if !ok || u.Incarnation != p.in.n {
		return nil, 0, false
	}
	l := p.lists[field]
	return l, n, l.find(n) >= 0
}

// dropLocked forgets a settled job.
func (p *index) dropLocked(l *list, n uint64) {
	if i := l.find(n); i >= 0 {
		l.inHand = slices.Delete(l.inHand, i, i+1)
	}
	p.tidyLocked(l)
}

// tidyLocked forgets a claim without any job.
func (p *index) tidyLocked(l *list) {
	if len(l.inHand) == 0 && !l.waits() {
		delete(p.lists, l.field)
	}
}
