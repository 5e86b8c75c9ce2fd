package testkit

import (
	"github.com/troupehq/troupe/event"
)

// LoseEvents tells the kit's log that it was too slow for n events.
func (k *Kit) LoseEvents(n int) { k.log.record(event.EventsDropped{N: n}) }

// InBubble reports whether the caller is in a bubble.
var InBubble = inBubble
