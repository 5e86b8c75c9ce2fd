package testkit

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
)

const (
	skipIdle  = 5 * time.Second  // nothing has happened for so long: from then on the loops of the actors sleep longer
	skipEarly = 2 * time.Second  // they work again so long before something is due
	skipLook  = 30 * time.Second // Redis is looked at so often meanwhile
	skipBeat  = 10 * time.Minute // and the heart beats so often
)

// Skip lets d of the bubble's time pass, with all that is due in it: jobs that are
// scheduled run at their time, retries and the ticks of periodic jobs come. It is a time.Sleep that costs less: while
// no job runs and none is due, those who look for work (the fetchers, the poller and the
// rescuer) are suspended, and the heartbeat as well: it beats every ten minutes, and what
// says in Redis that the process lives is kept. A day takes a fraction of a second then,
// and less with a longer Config.Lease.
//
// What another goroutine of the test pushes meanwhile runs within half a minute. A daemon
// with jobs of another system (Capsule.Wire, Capsule.Fetch) is not suspended: it takes as
// long as in a time.Sleep. Outside of a bubble time cannot be skipped, and the test fails.
func (k *Kit) Skip(d time.Duration) {
	k.tb.Helper()
	if !inBubble() {
		k.tb.Fatalf("Skip(%s): the time of this test is real, which cannot be skipped: use Virtual, or testing/synctest", d)
	}
	end := time.Now().Add(d)
	for last, since := "", time.Now(); time.Now().Before(end); {
		now := k.situation()
		if now.text != last {
			last, since = now.text, time.Now()
		}
		till := end
		if !now.next.IsZero() && now.next.Before(end) {
			till = now.next
		}
		if !k.foreign && time.Since(since) >= skipIdle && k.Settled() && time.Until(till) > skipEarly {
			k.rest(now.text, till.Add(-skipEarly))
		} else {
			time.Sleep(min(time.Second, time.Until(end)))
		}
	}
	synctest.Wait()
}

// rest has time pass while nobody looks for work, until the situation is another.
func (k *Kit) rest(text string, till time.Time) {
	k.keepAlive(time.Until(till))
	heart := k.suspend("heartbeat")
	others := k.suspend("fetcher", "poller", "rescuer")
	for beat := time.Now().Add(skipBeat); time.Now().Before(till) && k.situation().text == text; {
		time.Sleep(min(skipLook, time.Until(till)))
		if !time.Now().Before(beat) {
			k.wake(heart)
			k.keepAlive(time.Until(till))
			heart, beat = k.suspend("heartbeat"), time.Now().Add(skipBeat)
		}
	}
	k.wake(heart) // its leases are renewed before anybody looks at them
	k.wake(others)
}

// suspend suspends the actors of some roles, but for those that do not work, and returns
// their paths.
func (k *Kit) suspend(roles ...string) (paths []string) {
	for _, a := range k.Tree() {
		works := a.State == actors.StateRunning || a.State == actors.StateIdle
		if works && slices.Contains(roles, path.Base(a.Path)) && k.Daemon.Faults().Suspend(a.Path) == nil {
			paths = append(paths, a.Path)
		}
	}
	return paths
}

// wake ends suspend, and lets everybody do what is due.
func (k *Kit) wake(paths []string) {
	for _, p := range paths {
		_ = k.Daemon.Faults().Resume(p) // it may be gone
	}
	synctest.Wait()
}

// keepAlive makes the keys of the process live longer by d.
func (k *Kit) keepAlive(d time.Duration) {
	ctx := context.Background()
	for _, key := range k.Redis.Keys(ctx, "*"+k.Identity()+"*").Val() {
		if left := k.Redis.PTTL(ctx, key).Val(); left > 0 {
			k.Redis.PExpire(ctx, key, left+d)
		}
	}
}

// situation is what there is to do.
type situation struct {
	text string    // the same as long as it is
	next time.Time // when the next entry of a set is due; zero for none
}

// situation reads from Redis what Skip has to wait for.
func (k *Kit) situation() (s situation) {
	ctx := context.Background()
	names := k.Redis.SMembers(ctx, keys.Queues).Val()
	slices.Sort(names)
	now := strconv.FormatFloat(float64(time.Now().UnixMicro())/1e6, 'f', 6, 64)
	var later []*redis.ZSliceCmd
	var sizes []*redis.IntCmd
	_, err := k.Redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, set := range []string{keys.Retry, keys.Schedule} {
			later = append(later, p.ZRangeByScoreWithScores(ctx, set, &redis.ZRangeBy{Min: "(" + now, Max: "+inf", Count: 1}))
			sizes = append(sizes, p.ZCard(ctx, set))
		}
		for _, name := range names {
			sizes = append(sizes, p.LLen(ctx, keys.Queue(name)))
		}
		return nil
	})
	var b strings.Builder
	for _, n := range sizes {
		fmt.Fprintf(&b, "%d ", n.Val())
	}
	for _, z := range later {
		for _, first := range z.Val() {
			at := time.UnixMicro(int64(first.Score * 1e6))
			if s.next.IsZero() || at.Before(s.next) {
				s.next = at
			}
		}
	}
	entries, listErr := inspect.New(k.Redis).PeriodicJobs(ctx)
	for _, e := range entries {
		if !e.Next.IsZero() && !e.Disabled && (s.next.IsZero() || e.Next.Before(s.next)) {
			s.next = e.Next
		}
	}
	fmt.Fprint(&b, names, s.next, listErr, k.Stats().Processed, k.Stats().Failed, err)
	s.text = b.String()
	return s
}
