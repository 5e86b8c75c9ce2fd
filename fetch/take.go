package fetch

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/troupehq/troupe/internal/keys"
)

const (
	claimSize  = 64   // most jobs of a claim
	maxTake    = 1024 // most jobs of a call
	queuesCall = 256  // most queues of a call
)

// Take acks and takes; see Fetcher. What is in hand already comes first.
func (f *fetcher) Take(ctx context.Context, n int, acks []Unit) ([]Unit, error) {
	var units []Unit
	err := f.each(ctx, "take", func(in *incarnation) (err error) {
		if units, err = f.take(ctx, in, n, acks); err != nil {
			return err
		}
		fine, err := f.vouch(ctx, in, units...)
		switch {
		case err != nil:
			units = nil
		case !fine:
			units = f.unstash(in, n)
		}
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
			_ = in.followUp(ctx) // what fails is in doubt still
		}
		switch {
		case errors.Is(err, errOver):
			continue
		case err != nil:
			return f.told(what, err)
		}
		return nil
	}
}

// followUp makes ready the places that a call on another one has put in doubt.
func (in *incarnation) followUp(ctx context.Context) error {
	for _, p := range in.places {
		in.f.mu.Lock()
		lapsed := p.lapsed
		in.f.mu.Unlock()
		if !lapsed {
			continue
		}
		if err := p.turnOf(ctx, func() error { return p.ready(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// take calls the places. After an error, or a panic in what others wrote, what came goes to
// the next Take.
func (f *fetcher) take(ctx context.Context, in *incarnation, n int, acks []Unit) (units []Unit, err error) {
	whole := false
	defer func() {
		if !whole {
			f.restash(in, units)
			units = nil
		}
	}()
	units = f.unstash(in, n)
	if len(acks) > 0 || len(units) == 0 {
		err = f.collect(ctx, in, n, acks, &units)
	}
	whole = err == nil
	return units, err
}

func (f *fetcher) collect(ctx context.Context, in *incarnation, n int, acks []Unit, units *[]Unit) error {
	byPlace := f.byPlace(in, acks)
	wants := f.plan(n - len(*units))
	if f.cluster {
		return f.takeOnCluster(ctx, in, n, wants, byPlace, units)
	}
	p, left := in.places[0], f.env.Bytes
	for first := true; first || len(wants) > 0; first = false {
		page := wants[:min(queuesCall, len(wants))]
		wants = wants[len(page):]
		got, err := p.take(ctx, &request{n: n - len(*units), bytes: left, wants: page, acks: byPlace[p]})
		*units, left = append(*units, got.units...), left-got.bytes
		if err != nil || len(*units) >= n || left <= 0 {
			return err
		}
		delete(byPlace, p)
	}
	return nil
}

// plan asks the queues, whose code may be anybody's, how n jobs are to be divided.
func (f *fetcher) plan(n int) []Want {
	if n <= 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wants(n, f.rand)
}

// byPlace sorts units that are of this incarnation.
func (f *fetcher) byPlace(in *incarnation, units []Unit) map[*place][]Unit {
	if len(units) == 0 {
		return nil
	}
	if !f.cluster {
		return map[*place][]Unit{in.places[0]: units}
	}
	by := make(map[*place][]Unit)
	for _, u := range units {
		if q, ok := f.index[u.Queue]; ok {
			by[in.placeOf(q)] = append(by[in.placeOf(q)], u)
		}
	}
	return by
}

// request is one call of take.
type request struct {
	n       int
	bytes   int // at most, but for the job that reaches them
	wants   []Want
	suspect bool // of the suspects of the queues
	acks    []Unit
}

// reply is what came of it.
type reply struct {
	units []Unit
	bytes int // of new jobs
}

// take makes a call, again if Redis had forgotten something.
func (p *place) take(ctx context.Context, r *request) (got reply, err error) {
	f, whole := p.in.f, false
	defer func() {
		if !whole { // a panic in what others wrote
			f.restash(p.in, got.units)
		}
	}()
	err = p.try(ctx, func() error {
		got.units = append(got.units, f.unstash(p.in, r.n-len(got.units))...) // what a resync has found
		ask := min(r.n-len(got.units), maxTake)
		if ask <= 0 && len(r.acks) == 0 {
			return nil
		}
		more, err := p.takeNow(ctx, r, max(ask, 0))
		got.units, got.bytes = append(got.units, more.units...), got.bytes+more.bytes
		return err
	})
	whole = true
	return got, err
}

// takeNow makes the call. It is our turn.
func (p *place) takeNow(ctx context.Context, r *request, ask int) (reply, error) {
	f := p.in.f
	groups := p.group(r.acks)
	wants := r.wants
	if ask == 0 {
		wants = nil
	}
	claims := 0
	if len(wants) > 0 {
		claims = min(ask, (ask+claimSize-1)/claimSize+2*len(wants)) // of each queue the first one is small
	}
	call := strconv.FormatUint(p.number+1, 10) + "."
	names := make([]string, 0, 1+len(groups)+claims+len(wants))
	args := make([]any, 0, 16+4*len(groups)+len(r.acks)+3*len(wants))
	paused := keys.Paused
	if f.cluster {
		paused = p.key
	}
	names = append(names, paused)
	args = append(args, ask, r.bytes, len(groups), claims, len(wants))
	for i := range groups {
		g := &groups[i]
		names = append(names, g.l.key)
		args = append(args, &g.l.field, g.length, g.oldest, len(g.rest))
		for k := range g.rest {
			args = append(args, g.rest[k])
		}
	}
	for i := range claims {
		names = append(names, p.slot.List(p.in.id, call+strconv.Itoa(i+1)))
	}
	for i := range wants {
		q := f.index[wants[i].Queue]
		if r.suspect {
			names = append(names, p.slot.Suspects(wants[i].Queue))
		} else {
			names = append(names, keys.Queue(wants[i].Queue))
		}
		args = append(args, listName(f.names[q], r.suspect), &f.names[q], wants[i].N)
	}
	stamp := p.stamp
	done := p.effect(func() { p.acked(groups, stamp) })
	text, err := p.call(ctx, takeScript, names, args, done)
	if err != nil {
		return reply{}, err
	}
	return p.took(r, wants, groups, text)
}

// ackGroup are the acks of one list.
type ackGroup struct {
	l      *list
	length int      // of the list, as far as we know
	oldest int      // how many of its oldest jobs are acked: they go by their number
	rest   [][]byte // the others
}

// group sorts acks by list, and stamps their jobs with the number of the call. What is
// not in hand was acked before.
func (p *place) group(acks []Unit) (groups []ackGroup) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	p.stamp++
	var l *list
	for i := range acks {
		field, n, ok := parseReceipt(acks[i].Receipt)
		if !ok || acks[i].Incarnation != p.in.n {
			continue
		}
		if l == nil || l.field != field {
			if l = p.lists[field]; l == nil {
				continue
			}
		}
		k := l.find(n)
		if k < 0 {
			continue
		}
		if l.stamp != p.stamp {
			l.stamp = p.stamp
			groups = append(groups, ackGroup{l: l, length: len(l.held)})
		}
		l.held[k].stamp = p.stamp
	}
	for i := range groups {
		g := &groups[i]
		for k, h := range g.l.held {
			switch {
			case h.stamp != p.stamp:
			case g.oldest == k && !g.l.waits():
				g.oldest++
			default:
				g.rest = append(g.rest, h.payload)
			}
		}
	}
	return groups
}

// acked is the effect of acks with this stamp. f.mu is held.
func (p *place) acked(groups []ackGroup, stamp uint64) {
	for i := range groups {
		l := groups[i].l
		if l == nil {
			continue
		}
		l.held = slices.DeleteFunc(l.held, func(h held) bool { return h.stamp == stamp })
		if len(l.held) == 0 && !l.waits() {
			delete(p.lists, l.field)
		}
	}
}

// took does what the reply says.
func (p *place) took(r *request, wants []Want, groups []ackGroup, text []string) (got reply, err error) {
	said, err := readReply(text)
	if err != nil {
		return got, err
	}
	f, whole := p.in.f, false
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() {
		if !whole { // a panic in the log
			f.stash = append(f.stash, got.units...)
		}
	}()
	for _, c := range said.claims {
		l := &list{field: c.field, key: p.slot.List(p.in.id, c.field), queue: f.index[wants[c.queue].Queue], suspect: r.suspect}
		payloads := make([][]byte, len(c.jobs))
		for i, job := range c.jobs {
			payloads[i] = bytesOf(job)
			got.bytes += len(job)
		}
		p.lists[c.field] = l
		got.units = append(got.units, l.add(p.in, payloads...)...)
	}
	for _, field := range said.torn {
		for i := range groups {
			if groups[i].l != nil && groups[i].l.field == field {
				groups[i].l = nil // nothing is known of it; the comparison tells
			}
		}
		p.doubt, p.torn, err = true, true, errTorn
	}
	p.acked(groups, p.stamp)
	for i := range wants {
		f.pause(f.index[wants[i].Queue], slices.Contains(said.paused, i))
	}
	for _, problem := range said.problems {
		f.sick.report(wants[problem.queue].Queue, problem.text)
	}
	whole = true
	return got, err
}
