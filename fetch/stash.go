package fetch

import "context"

// What is in hand and was not handed out yet is the stash.

// vouch lets no job start on a lease that is over. Then it is renewed first; who took the
// units asks again for what is in hand, when it is known that nobody has fenced us.
func (f *fetcher) vouch(ctx context.Context, in *incarnation, units ...Unit) (fine bool, err error) {
	f.mu.Lock()
	over, stale := f.cur != in, !f.fresh(0)
	f.mu.Unlock()
	switch {
	case len(units) == 0 || !over && !stale:
		return true, nil
	case over:
		return false, errOver
	}
	f.restash(in, units)
	for _, p := range in.places {
		if err := p.turnOf(ctx, func() error { return p.ready(ctx) }); err != nil {
			return false, err
		}
	}
	return false, nil
}

// unstash hands out what is in hand already, unless the lease is in doubt.
func (f *fetcher) unstash(in *incarnation, n int) []Unit {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != in || !f.fresh(0) {
		return nil
	}
	var units []Unit
	rest := f.stash[:0]
	for _, u := range f.stash {
		if len(units) < n && f.startable(&u) && !in.placeOf(f.index[u.Queue]).lapsed {
			units = append(units, u)
		} else {
			rest = append(rest, u)
		}
	}
	clear(f.stash[len(rest):])
	f.stash = rest
	if len(units) > 0 {
		f.wake() // a waiter has paused for them; who waits may have seen nothing of it
	}
	return units
}

// restash keeps units for the next call.
func (f *fetcher) restash(in *incarnation, units []Unit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur == in {
		f.stash = append(units, f.stash...)
	}
}
