package env

import (
	"sync"
	"time"
)

// Leases knows when leases could not be renewed: then other processes that live may have lost
// theirs too. What Redis refuses of other calls says nothing about them.
type Leases struct {
	mu      sync.Mutex
	own     bool      // a renewal was confirmed: the process has leases
	renewed time.Time // the last one; at first the start
	back    time.Time // the first one after a gap
	lease   time.Duration
}

// NewLeases makes the Leases of a process that starts now.
func NewLeases(lease time.Duration) *Leases { return &Leases{lease: lease, renewed: time.Now()} }

// Renewed notes that Redis has confirmed a renewal.
func (l *Leases) Renewed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = true
	l.note()
}

// Answered notes that Redis has answered: for a process without leases.
func (l *Leases) Answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.own {
		l.note()
	}
}

func (l *Leases) note() {
	if l.gap() {
		l.back = time.Now()
	}
	l.renewed = time.Now()
}

// gap tells whether the last renewal is so long ago that a lease which was renewed every third
// of it may have run out. One failed renewal is no gap.
func (l *Leases) gap() bool { return time.Since(l.renewed) > l.lease*3/4 }

// Grace is how long other processes are still to be left alone, so that those which live can
// renew their leases: for half a lease from the first renewal after a gap.
func (l *Leases) Grace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	half := l.lease / 2
	if l.gap() {
		return half
	}
	return max(0, half-time.Since(l.back))
}
