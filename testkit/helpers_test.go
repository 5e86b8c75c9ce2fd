package testkit_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/testkit"
)

var errBoom = errors.New("boom")

// inState reports whether the actor at path is in state.
func inState(k *testkit.Kit, path string, state actors.State) func() bool {
	return func() bool {
		n := k.Tree().Find(path)
		return n.State == state
	}
}

// both runs f in real time and in a bubble.
func both(t *testing.T, f func(t *testing.T)) {
	t.Run("real", f)
	t.Run("bubble", func(t *testing.T) { synctest.Test(t, f) })
}
