package actors

import "github.com/troupehq/troupe/event"

// eventBuffer is how many events may wait for a subscriber.
const eventBuffer = 4096

// Subscribe delivers every event from now on to f, until the returned function
// is called or the daemon has ended. After cancel no call begins; one may still
// run.
//
// f is called for each event, in order, one at a time, in a goroutine of its own.
// A slow subscriber loses events and gets an EventsDropped that counts them. One
// that panics goes on with the next event. Neither delays the daemon. A stop waits
// a few seconds for a subscriber that still takes events, not for one whose call
// lasts more than 1 s.
func (d *Daemon) Subscribe(f func(event.Event)) (cancel func()) { return d.events.subscribe(f) }
