package supervised

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// stalls are the stalls of s in words.
func stalls(s *System) string {
	var all []string
	for _, stall := range s.Stalled(time.Now(), time.Minute) {
		all = append(all, fmt.Sprintf("%s %s %d %s", stall.Path, stall.State, stall.Waiting, stall.For))
	}
	return strings.Join(all, ", ")
}

func TestAMailboxThatDoesNotMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := bare(t)
		next := make(chan struct{})
		props := s.Props("role", "", func() actor.Actor {
			return recorder{func(ctx actor.Context) {
				if _, ok := ctx.Message().(string); ok {
					<-next
				}
			}}
		})
		pid, err := s.Root().SpawnNamed(props, "busy")
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when, want string) {
			t.Helper()
			if got := stalls(s); got != want {
				t.Errorf("%s: %q, expected %q", when, got, want)
			}
		}
		time.Sleep(time.Hour)
		expect("idle", "")
		s.Root().Send(pid, "one")
		time.Sleep(time.Hour)
		expect("at work, and nobody waits", "")
		s.Root().Send(pid, "two")
		time.Sleep(59 * time.Second)
		s.Root().Send(pid, "three")
		expect("one waits for 59 s", "")
		time.Sleep(time.Second)
		expect("two wait, one for a minute", "busy running 2 1m0s")
		next <- struct{}{}
		synctest.Wait()
		expect("it moves", "")
		time.Sleep(59 * time.Second)
		expect("it has moved 59 s ago", "")
		time.Sleep(time.Second)
		expect("it does not move", "busy running 1 1m0s")
		close(next)
		synctest.Wait()
		expect("all is done", "")

		// held and suspended: each from when it began, and until both have ended
		_ = s.Hold("busy")
		time.Sleep(30 * time.Second)
		_ = s.Suspend("busy")
		time.Sleep(30 * time.Second)
		expect("held and suspended", "busy held 0 1m0s")
		_ = s.Release("busy")
		synctest.Wait()
		expect("suspended", "busy suspended 0 1m0s")
		_ = s.Resume("busy")
		synctest.Wait()
		expect("neither", "")
		_ = s.Hold("busy")
		time.Sleep(59 * time.Second)
		expect("held again", "")
		s.Root().Stop(pid)
	})
}
