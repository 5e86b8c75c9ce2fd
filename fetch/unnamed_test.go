package fetch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/rescue"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func queueOfTest(payload []byte) string {
	var job struct{ Queue string }
	_ = json.Unmarshal(payload, &job)
	return job.Queue
}

// Lists that no index names: of a claim whose index was deleted, of a waiting list into which a
// move came when its owner had left, and of an owner whose tombstone stands. A list of a living
// owner, one of an owner that is registered, and one that does not tell its queue stay.
func TestListsThatNoIndexNamesAreRescued(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	push := func(key string, jobs ...string) {
		for _, job := range jobs {
			rdb.LPush(ctx, key, job)
		}
	}
	job := func(n int) string { return fmt.Sprintf(`{"queue":"a","jid":"%d"}`, n) }
	push("troupe:claim:h:1:x#c.1:7.1", "no job", job(1), job(2))
	push("troupe:claim:h:2:x#c:d.1:w:b:c", "by its name")
	push("troupe:claim:h:3:x#c.1:w2:a", "late")
	rdb.HSet(ctx, "troupe:inprogress:h:3:x#c.1", "!", "fenced 5 1 7")
	rdb.PExpire(ctx, "troupe:inprogress:h:3:x#c.1", time.Hour)
	push("troupe:claim:h:4:x#c.1:7.1", "lives")
	rdb.Set(ctx, "troupe:lease:h:4:x#c.1", "1", time.Hour)
	push("troupe:claim:h:5:x#c.1:7.1", "no queue")
	push("troupe:claim:h:6:x#c.1:7.1", "registered")
	rdb.HSet(ctx, "troupe:places", "h:6:x#c.1", `{"v":3,"queues":["a"]}`)
	push("troupe:claim:what", "no owner")
	rdb.Set(ctx, "troupe:claim:h:7:x#c.1:w:a", "closed", time.Hour)
	left := []string{"troupe:claim:h:4:x#c.1:7.1", "troupe:claim:h:5:x#c.1:7.1", "troupe:claim:h:6:x#c.1:7.1", "troupe:claim:what"}

	const n = 4
	var rescuers [n]*rescue.Rescuer
	for i := range rescuers {
		rescuers[i] = testRescuer(t, rdb, func(c *rescue.Config) { c.QueueOf = queueOfTest })
	}
	var group sync.WaitGroup
	for _, r := range rescuers {
		group.Go(func() {
			for range 3 { // one that finds another at work goes on with the next round
				if _, err := r.Rescue(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for _, r := range rescuers {
		mustRescue(t, r.Rescue)
	}
	known, a := rdb.SMembers(ctx, "queues").Val(), popped(t, rdb, "queue:a")
	slices.Sort(known)
	slices.Sort(a)
	want := []string{"late", "no job", job(1), job(2)}
	slices.Sort(want)
	if got := popped(t, rdb, "queue:b:c"); !slices.Equal(a, want) || !slices.Equal(got, []string{"by its name"}) || !slices.Equal(known, []string{"a", "b:c"}) {
		t.Errorf("the queues hold %q and %q, known are %q", a, got, known)
	}
	for _, key := range left {
		if rdb.LLen(ctx, key).Val() != 1 {
			t.Errorf("%s is not as it was", key)
		}
	}
	if got := rdb.HKeys(ctx, "troupe:places").Val(); len(got) != 1 {
		t.Errorf("registered are %q", got)
	}
	if d := rdb.PTTL(ctx, "troupe:inprogress:h:3:x#c.1").Val(); d < 2*time.Hour {
		t.Errorf("the tombstone stands for %s", d)
	}
	if d := rdb.PTTL(ctx, keys.Search).Val(); d <= rescue.AllTime/2 {
		t.Errorf("the next search may begin in %s", d)
	}
	push("troupe:claim:h:1:x#c.1:9.1", job(3))
	for _, r := range rescuers {
		r.Searched(time.Now().Add(-rescue.AllTime - time.Second))
		if done := mustRescue(t, r.Rescue); done.Units != 0 {
			t.Error("somebody searches before it is time")
		}
	}
}

// Whatever a rescuer has seen, the list of an owner that has come back is not named, and jobs
// wait while the living may have had no way to renew their leases.
func TestListsThatNoIndexNamesAndGrace(t *testing.T) {
	rdb, _ := redistest.New(t)
	ctx := t.Context()
	const key = "troupe:claim:h:1:x#c.1:7.1"
	rdb.LPush(ctx, key, `{"queue":"a"}`)
	grace := time.Minute
	r := testRescuer(t, rdb, func(c *rescue.Config) {
		c.QueueOf, c.Grace = queueOfTest, func(_ context.Context) (time.Duration, error) { return grace, nil }
	})
	if done := mustRescue(t, r.Rescue); done.Units != 0 || len(r.Found()) != 1 {
		t.Fatalf("within the grace %+v is rescued, found are %+v", done, r.Found())
	}
	rdb.Set(ctx, "troupe:lease:h:1:x#c.1", "1", time.Hour)
	if n, err := r.Name(ctx, r.Found()); n != 0 || err != nil || rdb.Exists(ctx, "troupe:places").Val() != 0 {
		t.Errorf("%d lists of a living owner are named, %v", n, err)
	}
	rdb.Del(ctx, "troupe:lease:h:1:x#c.1")
	grace = 0
	if done := mustRescue(t, r.Rescue); done.Units != 1 || rdb.LLen(ctx, "queue:a").Val() != 1 {
		t.Errorf("rescued %+v, expected the job", done)
	}
}

// The same on a cluster, where the name of a list tells its queue.
func TestListsThatNoIndexNamesOnACluster(t *testing.T) {
	rdb := redistest.StartCluster(t).Client()
	ctx := t.Context()
	for i := range 6 {
		s := keys.SlotOf(fmt.Sprint("q", i), true)
		rdb.LPush(ctx, s.List("h:1:x#c.1", "7.1"), "a")
		rdb.LPush(ctx, s.List(fmt.Sprintf("h:2:x#c.%d", i), fmt.Sprint("w:q", i)), "b")
	}
	alive := keys.SlotOf("q1", true).List("h:3:x#c.1", "7.1")
	rdb.LPush(ctx, alive, "lives")
	rdb.Set(ctx, keys.CommonOf("h:3:x#c.1", true).Lease, "1", time.Hour)
	r := testRescuer(t, rdb)
	units := 0
	harness.Await(t, "the jobs are back", func() bool {
		r.Looked(time.Time{})
		done, err := r.Rescue(ctx)
		if err != nil {
			t.Fatal(err)
		}
		units += done.Units
		return units >= 12
	})
	for i := range 6 {
		if got := rdb.LLen(ctx, keys.Queue(fmt.Sprint("q", i))).Val(); got != 2 {
			t.Errorf("queue %d holds %d jobs, expected 2", i, got)
		}
	}
	if rdb.LLen(ctx, alive).Val() != 1 || units != 12 {
		t.Errorf("%d units are rescued, expected 12 and not that of a living owner", units)
	}
}
