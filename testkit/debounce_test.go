package testkit_test

import (
	"context"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
)

func TestDebounceOfDoubles(t *testing.T) {
	var r troupe.Registry
	var ran []int64
	troupe.Handle(&r, func(_ context.Context, j *troupe.Job[charge]) error { ran = append(ran, j.Args.Account); return nil })
	rdb, _ := redistest.New(t)
	recorded := testkit.Record(t, rdb)
	fake := testkit.Fake(t)
	for name, d := range map[string]struct {
		p *testkit.Pushes
		c *client.Client
	}{"fake": {fake, fake.Client}, "record": {recorded, client.New(rdb)}} {
		push := func(n int64, key string) string {
			return harness.Must(d.c.Push(t.Context(), charge{n, 1, ""}, client.Debounce(key, time.Minute, 80*time.Second)))(t)
		}
		first := push(1, "a")
		harness.Equal(t, name+": the second jid", push(2, "a"), first)
		push(3, "b")
		if jobs := d.p.Jobs(); len(jobs) != 2 || jobs[0].JID() != first || string(jobs[0].Args()) != `[2,1]` || len(d.p.All()) != 2 {
			t.Errorf("%s: %d jobs, the first is %s of %d pushes", name, len(jobs), jobs[0].Bytes(), len(d.p.All()))
		}
		if left := time.Until(d.p.Jobs()[0].At); left > time.Minute || left < 0 {
			t.Errorf("%s: due in %v", name, left)
		}
	}
	harness.Equal(t, "jobs", harness.Must(fake.Drain(t.Context(), &r))(t), 2)
	harness.EqualList(t, "accounts", ran, []int64{2, 3})
	harness.Must(fake.Client.Push(t.Context(), charge{4, 1, ""}, client.Debounce("a", time.Minute, 0)))(t)
	harness.Equal(t, "jobs that have begun anew", len(fake.Jobs()), 1)

	ran = nil
	inline := testkit.Inline(t, &r, nil)
	for n := range int64(2) {
		harness.Must(inline.Client.Push(t.Context(), charge{n, 1, ""}, client.Debounce("a", time.Minute, 0)))(t)
	}
	harness.EqualList(t, "accounts inline", ran, []int64{0, 1})
}

func TestDebounceInVirtualTime(t *testing.T) {
	var r troupe.Registry
	var ran []int64
	var begun time.Time
	var after time.Duration
	troupe.Handle(&r, func(_ context.Context, j *troupe.Job[charge]) error {
		ran, after = append(ran, j.Args.Account), time.Since(begun)
		return nil
	})
	testkit.Virtual(t, actors.Config{Registry: &r}, func(t *testing.T, k *testkit.Kit) {
		begun = time.Now()
		for n := range int64(4) {
			harness.Must(k.Client.Push(t.Context(), charge{n, 1, ""}, client.Debounce("a", 10*time.Minute, 25*time.Minute)))(t)
			k.Skip(7 * time.Minute) // the last of them is beyond the limit
		}
		k.Await("it has run", func() bool { return k.Stats().Processed == 1 })
	})
	harness.EqualList(t, "accounts", ran, []int64{3})
	if after < 25*time.Minute || after > 26*time.Minute {
		t.Errorf("it ran %v after the first push", after)
	}
}
