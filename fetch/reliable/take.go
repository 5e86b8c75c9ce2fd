//go:build claims

package reliable

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/keys"
)

const (
	claimSize  = 64   // most jobs of a claim
	maxTake    = 1024 // most jobs of a call
	queuesCall = 256  // most queues of a call
)

// Take acks and takes; see fetch.Fetcher. What is in hand already comes first.
func (f *fetcher) Take(ctx context.Context, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	var units []fetch.Unit
	err := f.each(ctx, "take", func(in *incarnation) (err error) {
		if units, err = f.take(ctx, in, n, acks); err != nil {
			f.restash(in, units)
			units = nil
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

func (f *fetcher) take(ctx context.Context, in *incarnation, n int, acks []fetch.Unit) ([]fetch.Unit, error) {
	units := f.unstash(in, n)
	if len(acks) == 0 && len(units) > 0 {
		return units, nil
	}
	byPlace := f.byPlace(in, acks)
	wants := f.plan(n - len(units))
	if !f.cluster {
		p := in.places[0]
		for first := true; first || len(wants) > 0; first = false {
			page := wants[:min(queuesCall, len(wants))]
			wants = wants[len(page):]
			got, err := p.take(ctx, &request{n: n - len(units), wants: page, acks: byPlace[p]})
			units = append(units, got.units...)
			if err != nil || len(units) >= n || got.full {
				return units, err
			}
			delete(byPlace, p)
		}
		return units, nil
	}
	return f.takeOnCluster(ctx, in, n, wants, byPlace, units)
}

// plan asks the queues, whose code may be anybody's, how n jobs are to be divided.
func (f *fetcher) plan(n int) []fetch.Want {
	if n <= 0 {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wants(n, f.rand)
}

// byPlace sorts units that are of this incarnation.
func (f *fetcher) byPlace(in *incarnation, units []fetch.Unit) map[*place][]fetch.Unit {
	if len(units) == 0 {
		return nil
	}
	if !f.cluster {
		return map[*place][]fetch.Unit{in.places[0]: units}
	}
	by := make(map[*place][]fetch.Unit)
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
	wants   []fetch.Want
	suspect bool // of the suspects of the queues
	acks    []fetch.Unit
}

// reply is what came of it.
type reply struct {
	units []fetch.Unit
	full  bool // it ended since it had as many bytes as it may have
}

// take makes a call, again if Redis had forgotten something.
func (p *place) take(ctx context.Context, r *request) (got reply, err error) {
	f := p.in.f
	err = p.try(ctx, func() error {
		got.units = append(got.units, f.unstash(p.in, r.n-len(got.units))...) // what a resync has found
		ask := min(r.n-len(got.units), maxTake)
		if ask <= 0 && len(r.acks) == 0 {
			return nil
		}
		more, err := p.takeNow(ctx, r, max(ask, 0))
		got.units, got.full = append(got.units, more.units...), more.full
		return err
	})
	f.mu.Lock()
	stale := len(got.units) > 0 && p.in.n == f.cur.n && !f.fresh(0)
	f.mu.Unlock()
	if stale && err == nil { // no job starts on an expired lease
		f.restash(p.in, got.units)
		got.units = nil
		if err = p.turnOf(ctx, func() error { return p.ready(ctx) }); err == nil {
			got.units = f.unstash(p.in, r.n)
		}
	}
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
		claims = (ask+claimSize-1)/claimSize + min(len(wants), 8)
	}
	names := make([]string, 0, 1+len(groups)+claims+len(wants))
	args := make([]any, 0, 16+3*len(groups)+len(r.acks)+3*len(wants))
	paused := keys.Paused
	if f.cluster {
		paused = p.key
	}
	names = append(names, paused)
	args = append(args, p.top, ask, f.env.Bytes, len(groups), claims, len(wants))
	for i := range groups {
		g := &groups[i]
		names = append(names, g.l.key)
		args = append(args, &g.l.field)
		if g.whole {
			args = append(args, len(g.jobs), 0)
			continue
		}
		args = append(args, "", len(g.jobs))
		for k := range g.jobs {
			args = append(args, g.jobs[k].payload)
		}
	}
	for i := range claims {
		names = append(names, p.slot.list(p.in.id, strconv.FormatUint(p.top+uint64(i)+1, 10)))
	}
	for i := range wants {
		q := f.index[wants[i].Queue]
		if r.suspect {
			names = append(names, p.slot.suspects(wants[i].Queue))
		} else {
			names = append(names, keys.Queue(wants[i].Queue))
		}
		args = append(args, listName(f.names[q], r.suspect), &f.names[q], wants[i].N)
	}
	done := p.effect(func() { p.acked(groups) })
	text, err := p.call(ctx, takeScript, names, args, done)
	if err != nil {
		return reply{}, err
	}
	return p.took(r, wants, groups, text)
}

// ackGroup are the acks of one list.
type ackGroup struct {
	l     *list
	jobs  []held
	whole bool // they are all of a claim
}

// group sorts acks by list; what is not in hand was acked before.
func (p *place) group(acks []fetch.Unit) (groups []ackGroup) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	at := make(map[*list]int)
	for i := range acks {
		l, n, ok := p.lookup(&acks[i])
		if !ok {
			continue
		}
		k, known := at[l]
		if !known {
			k = len(groups)
			at[l] = k
			groups = append(groups, ackGroup{l: l})
		}
		g := &groups[k]
		g.jobs = append(g.jobs, l.held[l.find(n)])
	}
	for i := range groups {
		g := &groups[i]
		g.jobs = distinct(g.jobs)
		g.whole = !g.l.waits() && len(g.jobs) == len(g.l.held)
	}
	return groups
}

// acked is the effect of acks. f.mu is held.
func (p *place) acked(groups []ackGroup) {
	for i := range groups {
		for _, h := range groups[i].jobs {
			p.drop(groups[i].l, h.n)
		}
	}
}

// took reads the reply.
func (p *place) took(r *request, wants []fetch.Want, groups []ackGroup, text []string) (got reply, err error) {
	f := p.in.f
	f.mu.Lock()
	defer f.mu.Unlock()
	bytes := 0
	paused := make(map[int]bool)
	for len(text) > 0 {
		switch text[0] {
		case "c":
			n, _ := strconv.Atoi(text[3])
			field := text[1]
			w, _ := strconv.Atoi(text[2])
			l := &list{field: field, key: p.slot.list(p.in.id, field), queue: f.index[wants[w-1].Queue], suspect: r.suspect}
			payloads := make([][]byte, n)
			for i, job := range text[4 : 4+n] {
				payloads[i] = bytesOf(job)
				bytes += len(job)
			}
			p.lists[field] = l
			top, _ := strconv.ParseUint(field, 10, 64)
			p.top = max(p.top, top)
			units := l.add(p.in, payloads...)
			together(units)
			got.units = append(got.units, units...)
			text = text[4+n:]
		case "p":
			w, _ := strconv.Atoi(text[1])
			paused[f.index[wants[w-1].Queue]] = true
			text = text[2:]
		case "e":
			w, _ := strconv.Atoi(text[1])
			f.sick.report(wants[w-1].Queue, text[2])
			text = text[3:]
		case "t":
			for i := range groups {
				if groups[i].l.field == text[1] {
					groups[i].jobs = nil // nothing is known of it; the comparison tells
				}
			}
			p.doubt, p.torn, err = true, true, errTorn
			text = text[2:]
		default:
			return got, fmt.Errorf("take: unexpected reply %q", text[0])
		}
	}
	got.full = bytes >= f.env.Bytes
	p.acked(groups)
	for i := range wants {
		f.pause(f.index[wants[i].Queue], paused[f.index[wants[i].Queue]])
	}
	return got, err
}

// unstash hands out what is in hand already, unless the lease is in doubt.
func (f *fetcher) unstash(in *incarnation, n int) []fetch.Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != in || !f.fresh(0) {
		return nil
	}
	var units []fetch.Unit
	rest := f.stash[:0]
	for _, u := range f.stash {
		if len(units) < n && !u.Suspect && !in.placeOf(f.index[u.Queue]).lapsed {
			units = append(units, u)
		} else {
			rest = append(rest, u)
		}
	}
	clear(f.stash[len(rest):])
	f.stash = rest
	return units
}

// restash keeps units for the next call.
func (f *fetcher) restash(in *incarnation, units []fetch.Unit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur == in {
		f.stash = append(units, f.stash...)
	}
}

// bytesOf is s as bytes that nobody may modify.
func bytesOf(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// distinct removes repeated jobs.
func distinct(jobs []held) []held {
	seen := make(map[uint64]bool, len(jobs))
	out := jobs[:0]
	for _, h := range jobs {
		if !seen[h.n] {
			seen[h.n] = true
			out = append(out, h)
		}
	}
	return out
}

// together groups the units of a claim, which is cheaper to ack as a whole.
func together(units []fetch.Unit) {
	if len(units) < 2 {
		return
	}
	p := fetch.NewParcel(len(units))
	for i := range units {
		units[i].Parcel = p
	}
}
