package event_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe/event"
)

// A subscriber, for actors.Config.Subscribers or Daemon.Subscribe: it switches over the types that it wants, and new
// ones may come.
func ExampleEvent() {
	alert := func(e event.Event) {
		switch e := e.(type) {
		case event.JobDied:
			fmt.Println("dead:", e.Job.Class, e.Job.JID)
		case event.ActorCrashed:
			fmt.Println("crashed:", e.Path, e.Err)
		case event.EventsDropped:
			fmt.Println("too slow:", e.N)
		}
	}
	alert(event.JobDied{JobEvent: event.JobEvent{At: time.Now(), Job: event.JobRef{Class: "Report", JID: "j1"}}})
	alert(event.ActorCrashed{ActorEvent: event.ActorEvent{Path: "launcher/poller"}, Err: errors.New("boom")})
	alert(event.QuietBegan{})
	// Output:
	// dead: Report j1
	// crashed: launcher/poller boom
}
