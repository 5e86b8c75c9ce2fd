package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/inspect"
	ijob "github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/test/harness"
)

// ask takes all jobs of queue a as a process does, and asks rules for each.
func ask(t *testing.T, rdb redis.UniversalClient, f fetch.Fetcher, rules ...string) {
	t.Helper()
	ctx := t.Context()
	base := keys.LimitBase("a", redisconn.OnCluster(rdb))
	for {
		units := harness.Must(f.(fetch.Isolator).Take(ctx, 10, nil))(t)
		if len(units) == 0 {
			return
		}
		for _, u := range units {
			p := harness.Must(troupe.ParsePayload(u.Payload))(t)
			at, _ := p.Time("enqueued_at")
			of := &ijob.Rules{Base: base, IDs: rules, JID: p.JID(), Age: float64(at.UnixMicro()) / 1e6, Lease: time.Minute}
			harness.Must(f.Settle(ctx, []fetch.Move{{Unit: u, To: fetch.ToStay, Stay: &fetch.Stay{}, Effects: &fetch.Effects{Rules: of}}}))(t)
		}
	}
}

func define(t *testing.T, rdb redis.UniversalClient, how ijob.Define, texts map[string]string) {
	t.Helper()
	harness.Must(ijob.DefineLimits(t.Context(), rdb, keys.LimitBase("a", redisconn.OnCluster(rdb)), how, texts))(t)
}

func TestLimits(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		define(t, rdb, ijob.DefineStart, map[string]string{"mail": "1", "api": "20 0.01", "odd%3Aname": "2 throttled"})
		var ids []string
		for n := range 4 {
			ids = append(ids, pushUnique(t, rdb, n, troupe.UntilDone))
		}
		f := fetcher(t, rdb, "host:1:aa")
		ask(t, rdb, f, "mail:x", "api")
		push(t, rdb, "a", job(9, "a"))
		ask(t, rdb, f, "nowhere")

		all, cut, err := i.Limits(ctx)
		harness.OK(t, err)
		var got []string
		for _, l := range all {
			got = append(got, fmt.Sprintf("%s: %s, %d taken, %d held", l.Name, l.Allows, l.Taken(), l.Held()))
			if held := l.Held() > 0; held == l.Oldest().IsZero() || held && l.Name == "mail" && time.Since(l.Oldest()).Abs() > time.Minute {
				t.Errorf("%s: the oldest is of %v", l.Name, l.Oldest())
			}
		}
		harness.EqualList(t, "limits", got, []string{
			"api: 100 a second, 20 together after a pause, 0 taken, 0 held",
			"mail: 1 at once, 1 taken, 3 held",
			"nowhere: nothing: it is not defined, 0 taken, 1 held",
			"odd:name: 2 at once, with Ruby's, 0 taken, 0 held",
		})
		harness.Equal(t, "cut", cut, false)
		rule := all[1].Rules[0]
		if rule.ID != "mail:x" || rule.Key != "x" || len(rule.Slots) != 1 || rule.Slots[0].JID != ids[0] || time.Until(rule.Slots[0].Ends).Abs() > 2*time.Minute {
			t.Errorf("got %+v", rule)
		}
		stats := harness.Must(i.Stats(ctx))(t)
		harness.Equal(t, "held jobs of the totals", stats.HeldSize, 4)

		// By hand, and back.
		to := harness.Must(inspect.ParseAllowance("10/m burst 3"))(t)
		harness.OK(t, i.SetLimit(ctx, "mail", to))
		one, _, err := i.Limit(ctx, "mail")
		harness.OK(t, err)
		if l := one[0]; !l.Pinned || l.Allows.String() != "10 a minute, 3 together after a pause" || l.Configured.String() != "1 at once" || l.Held() != 3 {
			t.Errorf("set by hand: %+v", l)
		}
		harness.OK(t, i.ResetLimit(ctx, "mail"))
		named := harness.Must(i.LimitRule(ctx, "mail:x"))(t)
		if l := named[0]; l.Pinned || l.Allows.String() != "1 at once" || l.Rules[0].Held != 3 {
			t.Errorf("reset: %+v", l)
		}
		if err := i.SetLimit(ctx, "odd:name", to); err == nil || !strings.Contains(err.Error(), "sidekiq-throttled") {
			t.Errorf("a rate for a limit of sidekiq-throttled: %v", err)
		}
		if err := i.SetLimit(ctx, "none", to); !errors.Is(err, inspect.ErrNotFound) {
			t.Errorf("a limit that is not: %v", err)
		}
		harness.OK(t, i.SetLimit(ctx, "odd:name", harness.Must(inspect.ParseAllowance("7"))(t)))
		one, _, err = i.Limit(ctx, "odd:name")
		harness.OK(t, err)
		harness.Equal(t, "with Ruby's", one[0].Allows.String(), "7 at once, with Ruby's")
	})
}

// A held job is shown, found, let in, deleted and killed, and the lock of a unique one is freed with it, not before.
func TestHeldJobs(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		define(t, rdb, ijob.DefineStart, map[string]string{"mail": "1"})
		var ids []string
		for n := range 8 {
			ids = append(ids, pushUnique(t, rdb, n, troupe.UntilDone))
		}
		ask(t, rdb, fetcher(t, rdb, "host:1:aa"), "mail:x")
		missing := harness.Must(i.Missing(ctx, append([]string{"nowhere"}, ids...)...))(t)
		harness.EqualList(t, "missing", missing, []string{"nowhere"})

		rule := harness.Must(i.LimitRule(ctx, "mail:x"))(t)[0].Rules[0]
		jobs := rule.Jobs()
		page, size, err := jobs.Page(ctx, 1, 3, true)
		harness.OK(t, err)
		var got []string
		for _, e := range page {
			got = append(got, e.JID)
			since := time.Since(e.Held.Since)
			if e.Queue != "a" || e.Payload.Class() != "U" || e.Held.Rule != "mail:x" || e.Held.JID != e.JID || since < 0 || since > time.Minute || !strings.HasPrefix(e.Raw, "{") {
				t.Errorf("%+v, held %+v", e.JobRecord, e.Held)
			}
		}
		harness.Equal(t, "size", size, 7)
		harness.EqualList(t, "a page", got, ids[2:5])

		// whole bytes of a long one
		i.MaxRead = 200
		for e, err := range i.HeldJobs(ctx) {
			harness.OK(t, err)
			raw, there, err := e.Whole(ctx)
			harness.OK(t, err)
			if p, bad := troupe.ParsePayload([]byte(raw)); !e.Cut() || !there || bad != nil || p.JID() != e.Held.JID || e.Size != int64(len(raw)) {
				t.Errorf("cut %v, there %v: %d bytes of %q, %v", e.Cut(), there, e.Size, raw, bad)
			}
		}

		find := func(jid string) *inspect.SortedEntry {
			t.Helper()
			return harness.Must(i.FindHeld(ctx, jid))(t)
		}
		harness.Equal(t, "release", harness.Must(find(ids[3]).Release(ctx))(t), inspect.Done)
		i.MaxRead = 0
		harness.EqualList(t, "the queue", queued(t, i), []string{ids[3]})
		gone := find(ids[4])
		harness.Equal(t, "delete", harness.Must(find(ids[4]).Delete(ctx))(t), inspect.Done)
		harness.Equal(t, "delete again", harness.Must(gone.Delete(ctx))(t), inspect.Gone)
		harness.Equal(t, "release again", harness.Must(gone.Release(ctx))(t), inspect.Gone)
		harness.Equal(t, "kill", harness.Must(find(ids[5]).Kill(ctx))(t), inspect.Done)
		dead := harness.Must(i.DeadSet.FindJob(ctx, ids[5]))(t)
		harness.Equal(t, "class of the dead one", dead.Payload.Class(), "U")
		if c := harness.Must(i.Cancel(ctx, ids[6]))(t); c.String() != "the limit mail:x held it and it is deleted" || c.Queue != "a" {
			t.Errorf("cancelled: %v", c)
		}
		for name, err := range map[string]error{
			"retry": second(find(ids[7]).Retry(ctx)), "reschedule": second(find(ids[7]).Reschedule(ctx, time.Now())),
			"retry all": second(jobs.RetryAll(ctx, inspect.Bulk{})), "schedule": jobs.Schedule(ctx, time.Now(), dead.Payload),
		} {
			if err == nil || !strings.Contains(err.Error(), "a limit holds these jobs") {
				t.Errorf("%s: %v", name, err)
			}
		}
		want := []string{ids[0], ids[1], ids[2], ids[3], ids[7]}
		slices.Sort(want)
		harness.EqualList(t, "locks", locks(t, rdb), want)

		harness.Equal(t, "let in", harness.Must(rule.Release(ctx, 1))(t), 1)
		harness.Equal(t, "sent back", harness.Must(rule.SendBack(ctx))(t), 2)
		harness.EqualList(t, "the queue, the next first", queued(t, i), []string{ids[2], ids[7], ids[1], ids[3]})
		harness.Equal(t, "held", harness.Must(i.HeldSize(ctx))(t), 0)
	})
}

// Bulk operations and a clear end the locks, too, and the bytes in the dead set are those of the job.
func TestHeldInBulk(t *testing.T) {
	servers(t, func(t *testing.T, i *inspect.Inspector, rdb redis.UniversalClient) {
		ctx := t.Context()
		define(t, rdb, ijob.DefineStart, map[string]string{"mail": "0"})
		var ids []string
		for n := range 120 { // more than a page
			ids = append(ids, pushUnique(t, rdb, n, troupe.UntilDone))
		}
		ask(t, rdb, fetcher(t, rdb, "host:1:aa"), "mail")
		jobs := harness.Must(i.LimitRule(ctx, "mail"))(t)[0].Rules[0].Jobs()
		bytes := map[string]string{}
		for e, err := range i.HeldJobs(ctx) {
			harness.OK(t, err)
			bytes[e.JID] = e.Raw
		}
		// the list of queues keeps a queue with held jobs, on a cluster they are found by it
		harness.Must(i.Queue("a").Clear(ctx))(t)
		harness.Equal(t, "held", harness.Must(i.HeldSize(ctx))(t), 120)
		counts := harness.Must(jobs.KillAll(ctx, inspect.Bulk{Where: func(e *inspect.SortedEntry) bool { return slices.Index(ids, e.JID) < 60 }}))(t)
		harness.Equal(t, "killed", counts.Done, 60)
		for e, err := range i.DeadSet.Each(ctx) {
			harness.OK(t, err)
			harness.Equal(t, "dead", e.Raw, bytes[e.JID])
		}
		harness.Equal(t, "dead", harness.Must(i.DeadSet.Size(ctx))(t), 60)
		harness.Equal(t, "locks", len(locks(t, rdb)), 60)
		harness.Equal(t, "cleared", harness.Must(jobs.Clear(ctx))(t), 60)
		harness.Equal(t, "locks", len(locks(t, rdb)), 0)
		if _, err := client.New(rdb).PushClass(ctx, "U", []any{0}, client.Queue("a"), client.Unique(troupe.Unique{For: time.Hour})); err != nil {
			t.Errorf("push it again: %v", err)
		}
	})
}

// queued are the jids of queue a, the next first.
func queued(t *testing.T, i *inspect.Inspector) (ids []string) {
	t.Helper()
	for _, j := range all(t, i.Queue("a").OldestFirst(t.Context())) {
		ids = append(ids, j.JID)
	}
	return ids
}

func TestParseAllowance(t *testing.T) {
	for text, want := range map[string]string{
		"5": "5 at once", "0": "0 at once", "10/s": "10 a second, 1 together after a pause", "1000/1s": "1000 a second, 10 together after a pause",
		"10/1m burst 3": "10 a minute, 3 together after a pause", "1/7s": "one every 7s, 1 together after a pause", " 2/h ": "2 an hour, 1 together after a pause",
	} {
		if a, err := inspect.ParseAllowance(text); err != nil || a.String() != want || !a.Defined() {
			t.Errorf("%q: %q, %v, expected %q", text, a, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "5 burst 3", "0/s", "10/", "10/x", "10/m burst", "10/m burst 0", "10/m 3", "1.5"} {
		if a, err := inspect.ParseAllowance(text); err == nil {
			t.Errorf("%q: %q, expected an error", text, a)
		}
	}
}
