package actors

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// opened are the capsules whose fetchers are registered.
func (d *Daemon) opened() (all []*capsule) {
	for _, c := range d.capsules {
		if c.isOpened() {
			all = append(all, c)
		}
	}
	return all
}

// renewLeases gives the sign of life of every fetcher, all at once: one that does not get
// through must not cost the others their leases.
func (d *Daemon) renewLeases(owner *actor.PID) {
	var all sync.WaitGroup
	for _, c := range d.opened() {
		all.Add(1)
		d.spawn(owner, func() {
			defer all.Done()
			c.renew()
		})
	}
	all.Wait()
}
