package poison

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors/internal/supervised"
	"github.com/troupehq/troupe/internal/limits"
)

// askTime is how long Config.Recovery may take.
const askTime = time.Second

var errRecoveryHangs = errors.New("an earlier call has not returned, it is not asked meanwhile")

// Callback calls Config.Recovery for one job at a time. A call that takes
// longer than askTime decides nothing. Until it has returned there is no other call, so
// at most one goroutine hangs.
type Callback struct {
	f func(*troupe.Payload, int) troupe.Recovery

	mu    sync.Mutex
	hangs <-chan error // what the call that was given up will have returned; nil if there is none
}

// NewCallback makes the Callback of f, a Config.Recovery.
func NewCallback(f func(*troupe.Payload, int) troupe.Recovery) *Callback { return &Callback{f: f} }

// call returns what f says about p, or why it says nothing.
func (r *Callback) call(p *troupe.Payload, times int) (to troupe.Recovery, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hangs != nil && len(r.hangs) == 0 {
		return troupe.Recovery{}, errRecoveryHangs
	}
	r.hangs = nil
	var answer troupe.Recovery
	returned := supervised.Isolated(func() { answer = r.f(p.Clone(), times) })
	t := time.NewTimer(askTime)
	defer t.Stop()
	select {
	case err = <-returned:
	case <-t.C:
		r.hangs = returned
		return troupe.Recovery{}, fmt.Errorf("no answer for %v", askTime)
	}
	if err == nil {
		err = limits.Recovery(answer.Queue, answer.Delay, answer.Dead)
	}
	if err != nil {
		return troupe.Recovery{}, err
	}
	return answer, nil
}
