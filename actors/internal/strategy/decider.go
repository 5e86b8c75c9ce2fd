package strategy

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/supervisor"
)

// deciderTime is how long a user's decider may take.
const deciderTime = time.Second

var (
	errDeciderSlow = fmt.Errorf("the decider needs more than %s", deciderTime)
	errDeciderBusy = errors.New("the decider has not answered about an earlier failure")
)

// guard asks a user's decider, in a goroutine of its own: it is user code, and
// the supervisor must stay answerable. One that hangs is not asked again before
// it has returned, so that it costs one second and one goroutine, not one each.
type guard struct {
	decide func(supervisor.Failure) supervisor.Directive
	asking atomic.Bool
}

// ask returns the directive for f, the default's with the reason if the decider
// was overruled.
func (a *guard) ask(f supervisor.Failure) (supervisor.Directive, error) {
	if a.decide == nil {
		return supervisor.DefaultDecider(f), nil
	}
	if !a.asking.CompareAndSwap(false, true) {
		return supervisor.DefaultDecider(f), errDeciderBusy
	}
	var d supervisor.Directive
	done := Contain(func() {
		defer a.asking.Store(false)
		d = a.decide(f)
	})
	t := time.NewTimer(deciderTime)
	defer t.Stop()
	select {
	case err := <-done:
		if err == nil && (d < supervisor.Restart || d > supervisor.Escalate) {
			err = fmt.Errorf("the decider answered %s, expected restart, stop, resume or escalate", d)
		}
		if err != nil {
			return supervisor.DefaultDecider(f), err
		}
		return d, nil
	case <-t.C:
		return supervisor.DefaultDecider(f), errDeciderSlow
	}
}

// Contain runs f in a goroutine of its own. What it sends, once, is nil or the
// panic or Goexit with which f ended.
func Contain(f func()) <-chan error {
	done := make(chan error, 1)
	go func() {
		finished := false
		defer func() {
			switch v := recover(); {
			case v != nil:
				done <- &troupe.PanicError{Value: v, Stack: debug.Stack()}
			case !finished:
				done <- &troupe.PanicError{Goexit: true, Stack: debug.Stack()}
			default:
				done <- nil
			}
		}()
		f()
		finished = true
	}()
	return done
}
