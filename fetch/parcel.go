package fetch

import (
	"sync/atomic"

	"github.com/troupehq/troupe/internal/parcel"
)

// Parcel is a group of units that one Take brought and that are cheaper to ack in
// one call, all of them: then Redis has one thing to do for them and not one for
// each. Any of them may be acked or moved by itself, too.
type Parcel struct {
	field string // of the private place; see parcel.lua
	list  string // key of the list that has its units
	place int    // of the private place
	size  int
	apart atomic.Bool // a unit of it was to go by itself: it may be open in Redis
}

// Size is the number of its units.
func (p *Parcel) Size() int { return p.size }

// takeApart notes that a unit of the parcel is about to go by itself, and tells
// whether it is the first. The script that sees to that opens the parcel before,
// whatever has become of it: a replica that was promoted may know it closed.
func (p *Parcel) takeApart() (first bool) { return p.apart.CompareAndSwap(false, true) }

// parcelAcks are the acks of one call that concern one parcel.
type parcelAcks struct {
	p     *Parcel
	n     int
	open  bool // units of it go by themselves
	first bool // for the first time
	sent  bool // as a whole
}

// shipment are those of all parcels of one call.
type shipment []parcelAcks

func (s *shipment) of(p *Parcel) *parcelAcks {
	for i := len(*s) - 1; i >= 0; i-- {
		if (*s)[i].p == p {
			return &(*s)[i]
		}
	}
	*s = append(*s, parcelAcks{p: p})
	return &(*s)[len(*s)-1]
}

// whole tells whether the call acks all units of a parcel that is surely closed.
func (a *parcelAcks) whole() bool { return a.n == a.p.size && !a.p.apart.Load() }

// arrived notes that the call was answered.
func (s shipment) arrived() (whole, opened int) {
	for i := range s {
		switch a := &s[i]; {
		case a.first:
			opened++
		case a.sent:
			whole++
		}
	}
	return whole, opened
}

// thrift decides whether parcels pay: not where most have to be opened, since jobs
// fail or are slow. Guarded by owner.mu.
//
// Then a large unit has one for itself: what goes through Lua is copied time and again.
type thrift struct {
	mean   float64 // bytes of a payload, of the last Takes
	opened float64 // share of the last parcels
	rest   int     // Takes to come without parcels
}

const (
	restTakes  = 64      // how many Takes go without parcels before it is tried again
	largeBytes = 8 << 10 // of a payload
)

// parcels is how many of them the next Take may bring, 0 for none, and with how many units.
func (t *thrift) parcels(ask int) (n, most int) {
	many := ask >= parcel.Least
	if many && t.rest > 0 {
		t.rest--
		many = false
	}
	switch {
	case many:
		return (ask + parcel.Size - 1) / parcel.Size, parcel.Size
	case t.mean > largeBytes:
		return min(ask, parcel.Size), 1
	}
	return 0, parcel.Size
}

// weigh notes what came.
func (t *thrift) weigh(units []Unit) {
	if len(units) == 0 {
		return
	}
	size := 0
	for i := range units {
		size += len(units[i].Payload)
	}
	t.mean += (float64(size)/float64(len(units)) - t.mean) / 4
}

func (t *thrift) note(whole, opened int) {
	for range whole {
		t.opened -= t.opened / 16
	}
	for range opened {
		t.opened += (1 - t.opened) / 16
	}
	if t.opened > 0.5 {
		t.opened, t.rest = 0.25, restTakes
	}
}
