package supervisor_test

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe/supervisor"
)

// What happens when an actor crashes: which are restarted, how often within which time, after which waits.
func ExampleOneForOne() {
	s := supervisor.OneForOne(supervisor.Spec{
		Intensity: 5, Period: time.Minute,
		Backoff: supervisor.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second},
	})
	fmt.Println(s)
	// Output: one_for_one, 5 restarts in 1m0s, backoff 100ms..5s
}

// A decider chooses for each crash: here one kind of them ends the supervisor at once.
func ExampleDefaultDecider() {
	s := supervisor.OneForOne(supervisor.Spec{Decide: func(f supervisor.Failure) supervisor.Directive {
		if f.Path == "launcher/ledger/fetcher" {
			return supervisor.Escalate
		}
		return supervisor.DefaultDecider(f)
	}})
	fmt.Println(s != nil)
	// Output: true
}
