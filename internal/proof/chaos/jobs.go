package chaos

import (
	"context"
	"slices"
	"time"
)

// push pushes jobs at an even rate. A push that fails may have pushed; its number
// is not used again.
func (s *storm) push(ctx context.Context, push func(context.Context, Task) error, began time.Time) {
	for {
		i := s.claimed.Add(1)
		if i > int64(s.cfg.Jobs) {
			return
		}
		at := time.Duration(float64(s.cfg.Duration) * float64(i) / float64(s.cfg.Jobs))
		time.Sleep(at - time.Since(began)) // the rate is the load
		for {
			n := int(s.number.Add(1))
			if err := push(ctx, s.cfg.task(n)); err == nil {
				s.mu.Lock()
				s.accepted[n] = time.Now()
				s.mu.Unlock()
				break
			}
			s.unknown.Add(1)
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// settle waits until every job is done, or will not be tried again, and nothing
// else is left.
func (s *storm) settle(since time.Time) (left map[int]string) {
	s.t.Helper()
	for {
		s.revive()
		var err error
		if left, err = s.system.Left(context.Background(), s.rdb); err != nil {
			s.t.Fatalf("what is left: %v", err)
		}
		done, missing := s.done(), 0
		for n := range s.accepted {
			if !done[n] && (left[n] != s.system.Final) {
				missing++
			}
		}
		rest := 0
		for _, place := range left {
			if place != s.system.Final {
				rest++
			}
		}
		// A job that is neither in Redis nor run by anybody will not be done any more. Half a
		// minute passes first, since a job can be done after Redis was found empty of it.
		if rest == 0 && (missing == 0 || time.Since(since) > 30*time.Second) || time.Since(since) > s.cfg.Settle {
			return left
		}
		time.Sleep(500 * time.Millisecond) // other processes: nothing tells
	}
}

// due ends the faults whose time it is.
func (s *storm) due(now time.Time) {
	s.later = slices.DeleteFunc(s.later, func(l delayed) bool {
		if now.Before(l.at) {
			return false
		}
		l.do()
		return true
	})
}

func (s *storm) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.r.Int64N(int64(b-a)))
}

func (s *storm) after(d time.Duration, do func()) {
	s.later = append(s.later, delayed{time.Now().Add(d), do})
}

// deck is in what proportion faults come.
var deck = map[string]int{"kill": 7, "pause": 3, "stop": 3, "redis kill": 2, "cut": 2, "freeze": 2}
