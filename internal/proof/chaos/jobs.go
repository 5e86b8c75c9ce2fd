package chaos

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/troupehq/troupe/client"
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
			t := s.cfg.task(n)
			if err := push(ctx, t); err == nil {
				s.accept(n)
				if t.Key != 0 && s.system.Effects {
					s.pushAgain(ctx, push, t.duplicate())
				}
				break
			}
			s.unknown.Add(1)
			time.Sleep(200 * time.Millisecond)
		}
	}
}

func (s *storm) accept(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted[n] = time.Now()
}

// pushAgain pushes a job of the same key as one that was just pushed: it is refused unless that is done.
func (s *storm) pushAgain(ctx context.Context, push func(context.Context, Task) error, t Task) {
	switch err := push(ctx, t); {
	case err == nil:
		s.accept(t.N)
	case errors.Is(err, client.ErrStopped):
		s.refused.Add(1)
	default:
		s.unknown.Add(1)
	}
}

// behind are the numbers of the jobs that follow a job once it is done.
func (s *storm) behind(n int) (all []int) {
	if !s.system.Effects || n >= firstChild {
		return nil
	}
	t := s.cfg.task(n)
	for i := 0; t.pushes() && i < children; i++ {
		all = append(all, child(n, i))
	}
	for i := range t.Links {
		all = append(all, link(n, i))
	}
	for i := 0; t.batches() && i < members; i++ {
		all = append(all, member(n, i))
	}
	return all
}

// awaitLocks waits until no lock is held: what is, has no job any more. It returns what is not freed within two minutes
// and a half.
func (s *storm) awaitLocks() (locks []string, asked int) {
	s.t.Helper()
	if !s.system.Effects {
		return nil, 0
	}
	ctx := context.Background()
	for since := time.Now(); time.Since(since) < 150*time.Second; time.Sleep(500 * time.Millisecond) { // other processes: nothing tells
		s.revive()
		var err error
		if locks, err = s.system.Locks(ctx, s.rdb); err != nil {
			s.t.Fatalf("what is locked: %v", err)
		}
		if len(locks) == 0 {
			return nil, asked
		}
		if asked == 0 {
			asked = len(locks)
			for _, lock := range locks {
				if err := s.system.Ask(ctx, s.rdb, lock); err != nil {
					s.t.Fatalf("ask for lock %s: %v", lock, err)
				}
			}
		}
	}
	return locks, asked
}

// settle waits until every job is done, or will not be tried again, and nothing
// else is left.
func (s *storm) settle(since time.Time) (left map[int]string) {
	s.t.Helper()
	for empty := 0; ; {
		s.revive()
		var err error
		if left, err = s.system.Left(context.Background(), s.rdb); err != nil {
			s.t.Fatalf("what is left: %v", err)
		}
		done, missing := s.done(), 0
		for n := range s.accepted {
			if left[n] == s.system.Final || !done[n] && left[n] == "" && s.forgotten(n) {
				continue
			}
			// What a job has pushed may have entered its queue behind the look there, and before that at what is in
			// progress: so an empty Redis alone does not tell that all is over.
			for _, c := range append(s.behind(n), n) {
				if !done[c] && left[c] != s.system.Final && !s.forgottenWith(n, c) {
					missing++
				}
			}
		}
		rest := 0
		for _, place := range left {
			if place != s.system.Final {
				rest++
			}
		}
		// A job that is neither in Redis nor run by anybody will not be done any more. Half a
		// minute passes first, since a job can be done after Redis was found empty of it. It is found so twice, since a job
		// that is held moves on while the places are looked at.
		if empty++; rest > 0 {
			empty = 0
		}
		if empty > 0 && (missing == 0 || empty > 1 && time.Since(since) > 30*time.Second) || time.Since(since) > s.cfg.Settle {
			return left
		}
		time.Sleep(500 * time.Millisecond) // other processes: nothing tells
	}
}

// due does what faults have put off until now.
func (s *storm) due(now time.Time) {
	var ready []delayed
	s.later = slices.DeleteFunc(s.later, func(l delayed) bool {
		if now.Before(l.at) {
			return false
		}
		ready = append(ready, l)
		return true
	})
	for _, l := range ready {
		l.do() // may put off more
	}
}

func (s *storm) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.r.Int64N(int64(b-a)))
}

func (s *storm) after(d time.Duration, do func()) {
	s.later = append(s.later, delayed{time.Now().Add(d), do})
}

// deck is in what proportion faults come.
var deck = map[string]int{"kill": 7, "pause": 3, "stop": 3, "redis kill": 2, "failover": 1, "cut": 2, "freeze": 2}
