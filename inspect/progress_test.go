package inspect_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// fetcher takes from queues a and b, in the name of a process.
func fetcher(t *testing.T, rdb redis.UniversalClient, identity string) fetch.Isolator {
	t.Helper()
	f, err := fetch.NewReliable(fetch.Env{
		Redis: rdb, Identity: identity, Capsule: "default", Queues: fetch.Strict{"a", "b"}, Lease: time.Minute,
	})
	harness.OK(t, err)
	harness.OK(t, f.Open(t.Context()))
	return f.(fetch.Isolator)
}

// lists are what is in progress, list by list.
func lists(t *testing.T, i *inspect.Inspector) (lists []string) {
	t.Helper()
	for _, c := range all(t, i.Claims(t.Context())) {
		kind := "claim"
		if c.Waiting {
			kind = "waiting list"
		}
		if c.Suspect {
			kind += " of suspects"
		}
		if age := time.Since(c.Since); !c.Waiting && (age < -time.Minute || age > time.Minute) {
			t.Errorf("taken %s ago", age)
		}
		lists = append(lists, fmt.Sprint(c.Fetcher.Process, " ", kind, " ", c.Queue, " ", c.Size))
	}
	return lists
}

// jobsInProgress are the arguments of all jobs.
func jobsInProgress(t *testing.T, i *inspect.Inspector) (jobs []string) {
	t.Helper()
	for _, c := range all(t, i.Claims(t.Context())) {
		for _, job := range all(t, c.Each(t.Context())) {
			jobs = append(jobs, c.Fetcher.Process+" "+c.Queue+" "+string(job.Summary().Args))
		}
	}
	return jobs
}

// What a fetcher of ours has taken is in no queue, but here.
func TestInProgress(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	for n := range 4 {
		push(t, rdb, "a", job(n, "a"))
	}
	push(t, rdb, "b", "not a job")
	push(t, rdb, "a.suspects", job(8, "a"))
	f := fetcher(t, rdb, id8)
	for _, n := range []int{2, 2, 1} {
		if units := harness.Must(f.Take(ctx, n, nil))(t); len(units) != n {
			t.Fatalf("took %d", len(units))
		}
	}
	dead := fetcher(t, rdb, "old")
	if u := harness.Must(dead.TakeSuspect(ctx))(t); u == nil {
		t.Fatal("took no suspect")
	}
	harness.OK(t, rdb.Del(ctx, "troupe:lease:old#default.1").Err())
	// a push has reached it while it waited; the rescue has begun
	harness.OK(t, rdb.HSet(ctx, "troupe:inprogress:old#default.1", "w:b", "b 1000", "w2:b", "b 1000", "!", "fenced 1000 1 5").Err())
	harness.OK(t, rdb.LPush(ctx, "troupe:claim:old#default.1:w:b", job(10, "b"), job(11, "b")).Err())
	harness.OK(t, rdb.Set(ctx, "troupe:claim:old#default.1:w2:b", "closed", 0).Err())
	harness.OK(t, rdb.HSet(ctx, "troupe:places", "new#default.1", `{"v":3,"places":{}}`).Err())

	before := snapshot(t, rdb)
	want := []*inspect.Fetcher{
		{ID: "new#default.1", Process: "new", Capsule: "default", Unknown: `{"v":3,"places":{}}`},
		{ID: "old#default.1", Process: "old", Capsule: "default", Queues: []string{"a", "b"}, Fenced: true, Size: 3},
		{ID: id8 + "#default.1", Process: id8, Capsule: "default", Queues: []string{"a", "b"}, Alive: true, Size: 5},
	}
	got := harness.Must(i.Fetchers(ctx))(t)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(inspect.Fetcher{}), cmpopts.IgnoreFields(inspect.Fetcher{}, "Lease")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if left := got[2].Lease; left < 50*time.Second || left > time.Minute || got[1].Lease != 0 {
		t.Errorf("leases: %s, %s", got[1].Lease, left)
	}
	claims := []string{
		"old claim of suspects a 1", "old waiting list b 2",
		id8 + " claim a 2", id8 + " claim a 2", id8 + " claim b 1",
	}
	if got := lists(t, i); !slices.Equal(got, claims) {
		t.Errorf("got %q", got)
	}
	jobs := []string{
		"old a [8]", "old b [10]", "old b [11]",
		id8 + " a [0]", id8 + " a [1]", id8 + " a [2]", id8 + " a [3]", id8 + ` b ["not a job"]`,
	}
	if got := jobsInProgress(t, i); !slices.Equal(got, jobs) {
		t.Errorf("got %q", got)
	}
	for _, c := range all(t, i.Claims(ctx)) {
		if since := time.Unix(1695224881, 75e7); c.Waiting && !c.Since.Equal(since) {
			t.Errorf("pushed %s, want %s", c.Since, since)
		}
	}
	if diff := cmp.Diff(before, snapshot(t, rdb)); diff != "" {
		t.Errorf("looking has changed something:\n%s", diff)
	}
	harness.EqualList(t, "unknown layout", unknown(t, i), []string{"new#default.1"})
	harness.OK(t, rdb.HSet(ctx, "troupe:procs", "ancient#default.1", `["a"]`).Err())
	harness.EqualList(t, "unknown layout", unknown(t, i), []string{"new#default.1", "troupe:procs"})
}

// unknown are the fetchers whose layout is not known.
func unknown(t *testing.T, i *inspect.Inspector) (ids []string) {
	t.Helper()
	for _, f := range harness.Must(i.Fetchers(t.Context()))(t) {
		if f.Unknown != "" {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// A list that is longer than a page is read page by page, from the oldest job on.
func TestALongListInProgress(t *testing.T) {
	i, rdb, _ := start(t)
	ctx := t.Context()
	harness.OK(t, rdb.HSet(ctx, "troupe:places", "p#c.1", `{"v":2,"queues":["a.suspects"]}`).Err())
	harness.OK(t, rdb.HSet(ctx, "troupe:inprogress:p#c.1", "!", "1 1", "w:a.suspects", "a.suspects 1").Err())
	const n = 120
	for k := range n {
		harness.OK(t, rdb.LPush(ctx, "troupe:claim:p#c.1:w:a.suspects", job(k, "a")).Err())
	}
	jobs := jobsInProgress(t, i)
	for k := range n {
		if len(jobs) != n || jobs[k] != fmt.Sprintf("p a.suspects [%d]", k) {
			t.Fatalf("got %d: %q", len(jobs), jobs)
		}
	}
	claim := all(t, i.Claims(ctx))[0]
	for range claim.Each(ctx) {
		break // only the first
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range i.Claims(ctx) {
		if err == nil {
			t.Error("listed without a context")
		}
	}
	for _, err := range claim.Each(ctx) {
		if err == nil {
			t.Error("read without a context")
		}
	}
}

// On a cluster there is a place beside each queue. The node of the common registry may have
// forgotten a fetcher.
func TestInProgressOnACluster(t *testing.T) {
	rdb, _ := redistest.NewCluster(t)
	ctx := t.Context()
	i := inspect.New(rdb)
	f := fetcher(t, rdb, "p")
	for n := range 4 {
		for _, q := range []string{"a", "b"} {
			harness.OK(t, rdb.SAdd(ctx, "queues", q).Err())
			harness.OK(t, rdb.LPush(ctx, "queue:"+q, job(n, q)).Err())
		}
	}
	harness.Must(f.Take(ctx, 6, nil))(t)
	want := []string{"p claim a 4", "p claim b 2"}
	if got := lists(t, i); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	fetchers := harness.Must(i.Fetchers(ctx))(t)
	if len(fetchers) != 1 || !fetchers[0].Alive || fetchers[0].Size != 6 || !slices.Equal(fetchers[0].Queues, []string{"a", "b"}) {
		t.Errorf("got %+v", fetchers)
	}
	harness.OK(t, rdb.Del(ctx, "{troupe}:places", "{troupe}:lease:p#default.1").Err())
	harness.EqualList(t, "without the common registry", lists(t, i), want)
	if fetchers := harness.Must(i.Fetchers(ctx))(t); len(fetchers) != 1 || fetchers[0].Alive {
		t.Errorf("got %+v", fetchers)
	}
	harness.OK(t, rdb.ZAdd(ctx, "{troupe}:leases", redis.Z{Member: "x"}).Err())
	harness.EqualList(t, "unknown layout", unknown(t, i), []string{"{troupe}:leases"})
}
