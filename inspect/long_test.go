package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// longJob is a job as Ruby orders its fields, with arguments of some bytes.
func longJob(n, size int) string {
	return fmt.Sprintf(`{"retry":true,"queue":"a","class":"Long","args":[%d,{"text":"%s"}],"jid":%q,"created_at":1795225014.5,"enqueued_at":1795225015.5,"retry_count":0,"error_class":"E","error_message":"boom, {\"a\": [1,\"b\"]}"}`,
		n, strings.Repeat(`x\u00fc,\"`, size/10), jid(n))
}

// cuttingServers are those on which long jobs are cut in their own ways.
func cuttingServers(t *testing.T, test func(t *testing.T, admin, rdb *redis.Client)) {
	t.Helper()
	t.Run("scripts", func(t *testing.T) {
		rdb, _ := redistest.New(t)
		test(t, rdb, rdb)
	})
	t.Run("no scripts", func(t *testing.T) {
		server := redistest.Start(t)
		admin := redis.NewClient(&redis.Options{Addr: server.Addr})
		t.Cleanup(func() { _ = admin.Close() })
		if err := admin.Do(t.Context(), "ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-@scripting").Err(); err != nil {
			t.Fatal(err)
		}
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "u", Password: "pw"})
		t.Cleanup(func() { _ = rdb.Close() })
		test(t, admin, rdb)
	})
	t.Run("embedded", func(t *testing.T) {
		rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute}) // its scripts are slow beside other work
		t.Cleanup(func() { _ = rdb.Close() })
		test(t, rdb, rdb)
	})
}

// Of a long job the ends are read, and that is enough to name it; walks and pages meet each one once.
func TestLongJobs(t *testing.T) {
	t.Parallel()
	cuttingServers(t, func(t *testing.T, admin, rdb *redis.Client) {
		ctx := t.Context()
		i := inspect.New(rdb)
		i.MaxRead = 4 << 10
		const jobs = 60
		for n := range jobs {
			raw := job(n, "a")
			if n%3 == 0 {
				raw = longJob(n, 20_000+1000*n)
			}
			if n == 30 {
				raw = longJob(n, 2<<20)
			}
			push(t, admin, "a", raw)
			add(t, admin, "retry", someTime, raw) // all of one score
			add(t, admin, "dead", someTime+float64(n), raw)
		}
		met := func(what string, got map[string]int) {
			t.Helper()
			for n := range jobs {
				if got[jid(n)] != 1 {
					t.Errorf("%s: %s has come %d times", what, jid(n), got[jid(n)])
				}
			}
		}
		for name, set := range map[string]*inspect.JobSet{"retry": i.RetrySet, "dead": i.DeadSet} {
			got := map[string]int{}
			for e, err := range set.Each(ctx) {
				harness.OK(t, err)
				got[e.JID]++
				if len(e.Raw) > 5<<10 || e.Cut() != (e.Size > 4<<10) {
					t.Errorf("%d of %d bytes are read", len(e.Raw), e.Size)
				}
				if s := e.Summary(); e.Cut() && (s.Class != "Long" || s.ErrorMessage != `boom, {"a": [1,"b"]}` || e.Queue != "a" || s.EnqueuedAt.IsZero() || !strings.Contains(string(s.Args), `… and `)) {
					t.Errorf("%+v", s)
				}
			}
			met(name, got)
			got = map[string]int{}
			for e, err := range set.Fetch(ctx, 0, someTime+jobs, "") {
				harness.OK(t, err)
				got[e.JID]++
			}
			met(name+" up", got)
			entries, size, err := set.Page(ctx, 0, jobs, true)
			harness.OK(t, err)
			if len(entries) != jobs || size != jobs {
				t.Errorf("%s: a page has %d of %d", name, len(entries), size)
			}
			for _, n := range []int{0, 30, 57} {
				if e := harness.Must(set.FindJob(ctx, jid(n)))(t); e.JID != jid(n) || !e.Cut() {
					t.Errorf("found %s", e.JID)
				}
			}
		}
		got := map[string]int{}
		for j, err := range i.Queue("a").Each(ctx) {
			harness.OK(t, err)
			got[j.JID]++
		}
		met("queue", got)
		got = map[string]int{}
		for j, err := range i.Queue("a").OldestFirst(ctx) {
			harness.OK(t, err)
			got[j.JID]++
		}
		met("queue, oldest first", got)
		page, _, err := i.Queue("a").Page(ctx, 0, jobs)
		harness.OK(t, err)
		harness.Equal(t, "a page of the queue has", len(page), jobs)
	})
}

// What is done to a long job is done to its whole bytes.
func TestLongJobsAreActedOn(t *testing.T) {
	t.Parallel()
	cuttingServers(t, func(t *testing.T, admin, rdb *redis.Client) {
		ctx := t.Context()
		i := inspect.New(rdb)
		i.MaxRead = 4 << 10
		for n := range 8 {
			add(t, admin, "retry", someTime, longJob(n, 20_000))
			push(t, admin, "a", longJob(n, 20_000))
		}
		find := func(n int) *inspect.SortedEntry { return harness.Must(i.RetrySet.FindJob(ctx, jid(n)))(t) }
		for n, act := range []func(*inspect.SortedEntry, context.Context) (inspect.Outcome, error){
			(*inspect.SortedEntry).Delete, (*inspect.SortedEntry).Kill, (*inspect.SortedEntry).Retry,
			func(e *inspect.SortedEntry, ctx context.Context) (inspect.Outcome, error) {
				return e.Reschedule(ctx, e.At.Add(1))
			},
		} {
			if rdb != admin && (n == 1 || n == 2) {
				continue // these are scripts
			}
			e := find(n)
			raw, there, err := e.Whole(ctx)
			if raw != longJob(n, 20_000) || !there || err != nil {
				t.Fatalf("%d: %v %v %d bytes", n, there, err, len(raw))
			}
			if got := harness.Must(act(e, ctx))(t); got != inspect.Done {
				t.Errorf("%d: %s", n, got)
			}
			if got := harness.Must(act(e, ctx))(t); got != inspect.Gone && n != 3 {
				t.Errorf("%d, again: %s", n, got)
			}
		}
		if rdb != admin {
			if c := harness.Must(i.RetrySet.DeleteAll(ctx, inspect.Bulk{}))(t); c.Done != 7 {
				t.Errorf("%+v", c)
			}
			return
		}
		if err := admin.ZScore(ctx, "dead", longJob(1, 20_000)).Err(); err != nil {
			t.Errorf("killed: %v", err)
		}
		if c := harness.Must(i.RetrySet.KillAll(ctx, inspect.Bulk{}))(t); c.Done != 5 {
			t.Errorf("%+v", c)
		}
		if c := harness.Must(i.DeadSet.DeleteAll(ctx, inspect.Bulk{}))(t); c.Done != 6 {
			t.Errorf("%+v", c)
		}
		harness.Equal(t, "are left", admin.ZCard(ctx, "dead").Val()+admin.ZCard(ctx, "retry").Val(), 0)
		for j, err := range i.Queue("a").Each(ctx) {
			harness.OK(t, err)
			if j.JID == jid(3) {
				harness.Equal(t, "moved", harness.Must(j.Move(ctx, i.Queue("b")))(t), inspect.Done)
			}
			if j.JID == jid(4) {
				if got := harness.Must(j.Kill(ctx))(t); got != inspect.Done || admin.ZScore(ctx, "dead", longJob(4, 20_000)).Err() != nil {
					t.Errorf("killed: %s", got)
				}
			}
			if j.JID == jid(5) {
				harness.Equal(t, "deleted", harness.Must(j.Delete(ctx))(t), inspect.Done)
			}
		}
		if n := admin.LLen(ctx, "queue:a").Val(); n != 6 { // one was retried, three are gone
			t.Errorf("%d are in the queue", n)
		}
	})
}

// A running job is cut, too.
func TestLongWork(t *testing.T) {
	t.Parallel()
	cuttingServers(t, func(t *testing.T, admin, rdb *redis.Client) {
		ctx := t.Context()
		quoted := fmt.Sprintf("%q", longJob(7, 50_000))
		admin.SAdd(ctx, "processes", "h:1:a")
		admin.HSet(ctx, "h:1:a", "info", "{}", "busy", 1)
		admin.HSet(ctx, "h:1:a:work", "t", `{"queue":"a","payload":`+strings.ReplaceAll(quoted, `\\u`, `\\u`)+`,"run_at":1795225014}`)
		i := inspect.New(rdb)
		i.MaxRead = 4 << 10
		works := harness.Must(i.Works(ctx))(t)
		if len(works) != 1 {
			t.Fatal(works)
		}
		if w := works[0]; w.Job.JID != jid(7) || w.Queue != "a" || w.RunAt.IsZero() || w.Job.Summary().Class != "Long" || len(w.Job.Raw) > 5<<10 {
			t.Errorf("%s %s %s %d: %.200s", w.Job.JID, w.Queue, w.RunAt, len(w.Job.Raw), w.Job.Raw)
		}
	})
}
