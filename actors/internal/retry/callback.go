package retry

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/words"
)

// askRetryIn asks the class how long to wait; 0 is the default wait. The
// callback gets f.m itself: the caller has its bytes.
func (f *failure) askRetryIn() troupe.Delay {
	ask := f.Options.RetryIn
	if ask == nil {
		return 0
	}
	var delay troupe.Delay
	if err := try(func() { delay = ask(int(f.count)+1, f.Err, f.m) }); err != nil {
		f.report("RetryIn", err)
		return 0
	}
	if delay < 0 && delay != troupe.KillDelay && delay != troupe.DiscardDelay {
		f.report("RetryIn", fmt.Errorf("returned %v, expected a wait above 0, 0 for the default, KillDelay or DiscardDelay",
			time.Duration(delay)))
		return 0
	}
	return delay
}

// askExhausted asks the class whether to keep the job out of the dead set.
func (f *failure) askExhausted() bool {
	ask := f.Options.Exhausted
	if ask == nil {
		return false
	}
	var discard bool
	p := f.m.Clone()
	if err := try(func() { discard = ask(p, f.Err) }); err != nil {
		f.report("Exhausted", err)
		return false
	}
	return discard
}

func (f *failure) report(callback string, err error) {
	f.errs = append(f.errs, fmt.Errorf("callback %s of class %q: %w", callback, words.Text(f.m.HandlerClass()), err))
}

// try calls user code; a panic in it is an error (*troupe.PanicError).
func try(call func()) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil { // else runtime.Goexit, see Policy.Decide
			err = &troupe.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	call()
	returned = true
	return nil
}
