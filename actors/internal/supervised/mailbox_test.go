package supervised

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/tree"
)

// A supervisor may suspend an actor for a group's wait before the actor has got out of
// the call that told of its crash: the restart in between must not end that.
func TestASuspensionBesideACrashOutlivesTheRestart(t *testing.T) {
	suspend, restart := func(m *Mailbox) { m.PostSystemMessage(&actor.SuspendMailbox{}) }, func(m *Mailbox) { m.PostSystemMessage(&actor.Restart{}) }
	for name, tc := range map[string]struct {
		posts  []func(*Mailbox)
		paused bool
	}{
		"a crash":                              {[]func(*Mailbox){suspend}, false},
		"a crash and its restart":              {[]func(*Mailbox){suspend, restart}, false},
		"another suspension":                   {[]func(*Mailbox){suspend, suspend}, true},
		"another suspension after the restart": {[]func(*Mailbox){suspend, restart, suspend}, true},
	} {
		c := &node{state: tree.StateRunning}
		c.wrap(actor.Unbounded()())
		c.box.crash(func() {
			for _, post := range tc.posts {
				post(c.box)
			}
		})
		harness.Equal(t, name+": somebody else suspends the actor", c.box.paused, tc.paused)
	}
}
