package actors

import (
	"reflect"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/rights"
)

// needs is what the rights that the daemon needs depend on. A fetcher of somebody
// else's needs what it needs.
func (d *Daemon) needs() rights.Daemon {
	n := rights.Daemon{Identity: d.identity, Metrics: d.cfg.Metrics != MetricsOff}
	for _, k := range d.cfg.Capsules {
		n.Queues = append(n.Queues, k.Queues.Names()...)
		n.Reliable = n.Reliable || same(k.Fetch, fetch.NewReliable)
		n.Basic = n.Basic || same(k.Fetch, fetch.NewBasic)
	}
	for _, class := range d.cfg.Registry.Classes() {
		e, _ := d.cfg.Registry.Lookup(class)
		n.Iterable = n.Iterable || e.Iterable
	}
	return n
}

func same(a, b fetch.Factory) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}
