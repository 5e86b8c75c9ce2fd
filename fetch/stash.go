package fetch

import "slices"

// What is in hand and was not handed out yet is the stash.

// startableLocked tells whether a unit in hand may be handed out: not while jobs are given back to
// its queue, since it may be one of them.
func (f *fetcher) startableLocked(u *Unit, suspect bool) bool {
	return u.Suspect == suspect && (suspect || f.giving[u.Queue] == 0)
}

// inHand is how many units may be handed out, none unless the lease is sure.
func (f *fetcher) inHand(in *incarnation, suspect bool) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != in || !f.freshLocked(0) {
		return 0
	}
	for i := range f.stash {
		if u := &f.stash[i]; f.startableLocked(u, suspect) && !in.indexOf(u.Queue).lapsed {
			n++
		}
	}
	return n
}

// unstash hands out what is in hand.
func (f *fetcher) unstash(in *incarnation, r *request) ([]Unit, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur != in {
		return nil, errOver
	}
	if !f.freshLocked(0) {
		return nil, nil
	}
	units := make([]Unit, 0, max(0, min(r.n, len(f.stash))))
	f.stash = slices.DeleteFunc(f.stash, func(u Unit) bool {
		if len(units) >= r.n || !f.startableLocked(&u, r.suspect) || in.indexOf(u.Queue).lapsed {
			return false
		}
		units = append(units, u)
		return true
	})
	if len(units) > 0 && f.waits > 0 {
		f.wakeLocked() // a waiter has paused for them; a Wait that goes on may not have seen them
	}
	return units, nil
}
