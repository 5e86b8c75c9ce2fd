package sleeps

import (
	"testing"
	"testing/synctest"
	"time"
)

const real, virtual = time.Second, time.Second

func TestInRealTime(t *testing.T) {
	time.Sleep(real)
	t.Run("of a case", func(t *testing.T) {
		time.Sleep(real)
	})
	both()
	never := func() {
		time.Sleep(real)
	}
	never()
	time.Sleep(virtual) // a reason
	// another reason
	time.Sleep(virtual)
}

func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(virtual)
		func() { time.Sleep(virtual) }()
		both()
		only()
	})
	run(t, func(t *testing.T) { time.Sleep(virtual) })
}

// run runs a test in a bubble.
func run(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, test)
	time.Sleep(real)
}

// both is used in a bubble and outside of one.
func both() {
	time.Sleep(real)
}

// only is used in bubbles only, as what it uses.
func only() {
	time.Sleep(virtual)
	below()
}

func below() {
	time.Sleep(virtual)
}
