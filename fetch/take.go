package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
)

const (
	maxTake    = 1024 // most jobs of a call
	queuesCall = 256  // most queues of a call
)

// Take acks and takes; see Fetcher. What is in hand already comes first.
func (f *fetcher) Take(ctx context.Context, n int, acks []Unit) ([]Unit, error) {
	return f.take(ctx, "take", request{n: n, acks: acks})
}

// request is what a Take wants.
type request struct {
	n       int // how many are to be in hand
	suspect bool
	acks    []Unit

	// Of one call:
	wants   []Want
	most    int
	bytes   int  // at most, but for the job that reaches them; what is left of them after it
	drained bool // fewer came than were asked for
}

// take brings jobs into the stash, where they stay after an error or a panic in what others
// wrote, and hands out what is there.
func (f *fetcher) take(ctx context.Context, what string, r request) (units []Unit, err error) {
	f.mu.Lock()
	f.takes++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.takes--; len(f.stash) > 0 {
			f.endUnwantedSoonLocked()
		}
	}()
	err = f.each(ctx, what, func(in *incarnation) error {
		if len(r.acks) > 0 || f.inHand(in, r.suspect) == 0 {
			if err := f.collect(ctx, in, r); err != nil {
				return err
			}
		}
		f.mu.Lock()
		stale := !f.freshLocked(0)
		f.mu.Unlock()
		if stale { // no job starts on a lease that is over
			if err := f.renew(ctx, in); err != nil {
				return err
			}
		}
		in.followUp(ctx)
		units, err = f.unstash(in, &r)
		return err
	})
	return units, err
}

// each runs fn for the incarnation of the moment, and tells of a fence once.
func (f *fetcher) each(ctx context.Context, what string, fn func(in *incarnation) error) error {
	for {
		if err := f.tell(); err != nil {
			return err
		}
		in, err := f.current()
		if err == nil {
			err = fn(in)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, errOver) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// followUp makes ready the indexes that a call on another one has put in doubt. What fails is
// in doubt still.
func (in *incarnation) followUp(ctx context.Context) {
	for _, p := range in.indexes {
		in.f.mu.Lock()
		lapsed := p.lapsed
		in.f.mu.Unlock()
		if lapsed {
			_ = p.withCallLock(ctx, func() error { return p.ready(ctx) })
		}
	}
}

// collect acks, and takes what is lacking. On a cluster each index is asked in the order of
// the wants: first for what was drawn for its queue, then for what others lack.
func (f *fetcher) collect(ctx context.Context, in *incarnation, r request) error {
	acks := f.byIndex(in, r.acks)
	wants := f.plan(r.n-f.inHand(in, r.suspect), r.suspect)
	var pages [][]Want
	drained := make(map[string]bool)
	if f.cluster && len(wants) > 0 {
		paused, err := f.rdb.SMembers(ctx, keys.Paused).Result()
		if err != nil && !redisconn.HasPrefix(err, "WRONGTYPE") {
			return err
		}
		for _, name := range paused {
			drained[name] = true
		}
		f.mu.Lock()
		for i, name := range f.set.Load().names {
			f.pauseLocked(i, drained[name])
		}
		f.mu.Unlock()
		pages = slices.Collect(slices.Chunk(wants, 1))
		pages = append(pages, pages...)
	} else {
		pages = slices.Collect(slices.Chunk(wants, queuesCall))
	}
	r.bytes = f.env.Bytes
	for i, page := range pages {
		p, first := in.indexOf(page[0].Queue), page[0].Queue
		r.wants, r.most, r.acks, r.drained = page, maxTake, acks[p], false
		if f.cluster && i < len(wants) {
			r.most = min(page[0].N, maxTake)
		}
		if drained[first] || r.most <= 0 || r.bytes <= 0 || f.inHand(in, r.suspect) >= r.n {
			continue
		}
		if err := p.take(ctx, &r); err != nil {
			return err
		}
		delete(acks, p)
		drained[first] = r.drained
	}
	r.wants = nil
	for _, p := range in.indexes {
		if r.acks = acks[p]; len(r.acks) == 0 {
			continue
		}
		if err := p.take(ctx, &r); err != nil {
			return err
		}
	}
	return nil
}

// plan asks the queues, whose code may be anybody's, how n jobs are to be divided.
func (f *fetcher) plan(n int, suspect bool) (wants []Want) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > 0 && !suspect {
		return f.set.Load().wants(n, f.rand)
	}
	for _, name := range f.set.Load().names {
		if n > 0 {
			wants = append(wants, Want{name, 1})
		}
	}
	return wants
}

// byIndex sorts units by the index of their queue.
func (f *fetcher) byIndex(in *incarnation, units []Unit) map[*index][]Unit {
	if !f.cluster {
		return map[*index][]Unit{in.indexes[0]: units}
	}
	by := make(map[*index][]Unit)
	for _, u := range units {
		if _, ok := f.set.Load().index[u.Queue]; ok {
			by[in.indexOf(u.Queue)] = append(by[in.indexOf(u.Queue)], u)
		}
	}
	return by
}

// take makes a call, again if Redis had forgotten something.
func (p *index) take(ctx context.Context, r *request) error {
	return p.try(ctx, func() error {
		ask := max(0, min(r.n-p.in.f.inHand(p.in, r.suspect), r.most)) // a resync may have found some
		if ask == 0 && len(r.acks) == 0 {
			return nil
		}
		return p.takeNow(ctx, r, ask)
	})
}

// takeNow makes the call. The call lock is held.
func (p *index) takeNow(ctx context.Context, r *request, ask int) error {
	f := p.in.f
	groups := p.group(r.acks)
	wants := r.wants
	if ask == 0 {
		wants = nil
	}
	claims := 0
	if len(wants) > 0 {
		claims = min(ask, (ask+keys.ClaimSize-1)/keys.ClaimSize+2*len(wants)) // of each queue the first one is small
	}
	call := strconv.FormatUint(p.number+1, 10) + "."
	names := make([]string, 0, 1+len(groups)+claims+len(wants))
	args := make([]any, 0, 16+5*len(groups)+len(r.acks)+3*len(wants))
	paused := keys.Paused
	if f.cluster {
		paused = p.key
	}
	names = append(names, paused)
	args = append(args, ask, r.bytes, len(groups), claims, len(wants))
	for i := range groups {
		g := &groups[i]
		names = append(names, g.l.key)
		args = append(args, &g.l.field, g.length, g.oldest, len(g.rest), len(g.large))
		for k := range g.rest {
			args = append(args, g.rest[k])
		}
		for k := range g.large {
			args = append(args, nameOf(g.large[k]))
		}
	}
	for i := range claims {
		names = append(names, p.slot.List(p.in.id, call+strconv.Itoa(i+1)))
	}
	for i := range wants {
		name, key := &f.set.Load().names[f.set.Load().index[wants[i].Queue]], keys.Queue(wants[i].Queue)
		if r.suspect {
			key = p.slot.Suspects(wants[i].Queue)
		}
		names = append(names, key)
		args = append(args, keys.ListName(*name, r.suspect), name, wants[i].N)
	}
	stamp := p.number + 1
	text, err := p.call(ctx, takeScript, names, args, locked(func() { p.ackedLocked(groups, stamp) }))
	if err != nil {
		return err
	}
	return p.took(r, wants, groups, text, ask)
}

// took does what the reply says.
func (p *index) took(r *request, wants []Want, groups []ackGroup, text []string, ask int) error {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	var err, unexpected error
	paused, problems := make([]bool, len(wants)), make([]string, len(wants))
	for part := range parts(text) {
		switch part.kind {
		case "c":
			l := &list{field: part.text, key: p.slot.List(p.in.id, part.text), queue: f.set.Load().index[wants[part.q].Queue], suspect: r.suspect}
			p.lists[part.text] = l
			l.addLocked(p.in, part.jobs...)
			for _, job := range part.jobs {
				ask, r.bytes = ask-1, r.bytes-len(job)
			}
		case "t": // nothing is known of it; the comparison tells
			groups = slices.DeleteFunc(groups, func(g ackGroup) bool { return g.l.field == part.text })
			p.doubt, p.fellBack, err = true, true, errFellBack
		case "p":
			paused[part.q] = true
		case "e":
			problems[part.q] = part.text
		default:
			unexpected = part.err()
		}
	}
	r.drained = ask > 0
	p.ackedLocked(groups, p.number)
	for i := range wants {
		f.pauseLocked(f.set.Load().index[wants[i].Queue], paused[i])
		if problems[i] != "" {
			f.faulty.report(wants[i].Queue, problems[i]) // may panic
		}
	}
	return cmp.Or(unexpected, err)
}

// ackGroup are the acks of one list.
type ackGroup struct {
	l      *list
	length int      // of the list, as far as we know
	oldest int      // how many of its oldest jobs are acked: they go by their number
	rest   [][]byte // the others
	large  [][]byte // those of them that are large
}

// group sorts acks by list, and stamps their jobs with the number of the call. What is
// not in hand was acked before. The call lock is held.
func (p *index) group(acks []Unit) (groups []ackGroup) {
	f, stamp := p.in.f, p.number+1
	f.mu.Lock()
	defer f.mu.Unlock()
	var l *list
	for i := range acks {
		field, n, ok := parseReceipt(acks[i].Receipt)
		if !ok || acks[i].Incarnation != p.in.n {
			continue
		}
		if l == nil || l.field != field {
			l = p.lists[field]
		}
		k := l.find(n)
		if k < 0 {
			continue
		}
		if l.stamp != stamp {
			l.stamp = stamp
			groups = append(groups, ackGroup{l: l, length: len(l.inHand)})
		}
		l.inHand[k].stamp = stamp
	}
	for i := range groups {
		g := &groups[i]
		for k, h := range g.l.inHand {
			switch {
			case h.stamp != stamp:
			case g.oldest == k && !g.l.waits() && !g.l.mixed:
				g.oldest++
			case len(h.payload) >= largeJob:
				g.large = append(g.large, h.payload)
			default:
				g.rest = append(g.rest, h.payload)
			}
		}
	}
	return groups
}

// ackedLocked is the effect of acks with this stamp.
func (p *index) ackedLocked(groups []ackGroup, stamp uint64) {
	for _, g := range groups {
		g.l.inHand = slices.DeleteFunc(g.l.inHand, func(h takenJob) bool { return h.stamp == stamp })
		p.tidyLocked(g.l)
	}
}
