package web

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/test/harness"
)

// Of two operators that act on the same entries one has done it, and the other reads so.
func TestTwoOperators(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	seed(t, s.rdb, "retry", 5, "1795000000 + i", plainJob)
	jobs := s.list("/retries").Data.Jobs
	form := url.Values{"do": {"kill"}, "key": {jobs[0].Key, jobs[1].Key}, "back": {"class=Work"}}
	status, first := s.post("/retries/ticked", form, "Role", "operator")
	if status != http.StatusOK || s.rdb.ZCard(ctx, "dead").Val() != 2 || s.rdb.ZCard(ctx, "retry").Val() != 3 {
		t.Fatalf("%d: %s", status, first)
	}
	contains(t, "the first", first, "2 jobs killed.", `value="class=Work"`)
	form = url.Values{"do": {"retry"}, "key": {jobs[1].Key, jobs[2].Key}}
	_, second := s.post("/retries/ticked", form, "Role", "operator")
	contains(t, "the second", second, "1 job retried.", "1 gone: somebody was faster (j2).")
	form.Set("key", jobs[1].Key)
	_, third := s.post("/retries/ticked", form, "Accept", "application/json")
	contains(t, "the third", third, `"kind":"warning"`, `"gone":1`, "Nothing was retried.")
	if n := s.rdb.LLen(ctx, "queue:default").Val(); n != 1 || s.rdb.ZCard(ctx, "dead").Val() != 2 {
		t.Errorf("%d jobs in the queue", n)
	}

	// The same score and id with other bytes is another entry.
	raw := s.rdb.ZRange(ctx, "retry", 0, 0).Val()[0]
	key := s.first("/retries")
	s.rdb.ZRem(ctx, "retry", raw)
	seed(t, s.rdb, "retry", 4, "1795000000 + i", `'{"class":"Work","args":[9],"jid":"j' .. i .. '"}'`)
	_, other := s.post("/retries/ticked", url.Values{"do": {"delete"}, "key": {key}})
	contains(t, "for other bytes", other, "1 gone: somebody was faster (j4). Nothing was deleted.")
}

func TestTicked(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	seed(t, s.rdb, "dead", 600, "1795000000", plainJob) // all of one score
	s.rdb.ZAdd(ctx, "dead", z(1795000000, "junk"))
	jobs := s.all("/dead")
	keys := map[string]string{}
	for path := "/dead"; path != ""; {
		l := s.list(path)
		for _, j := range l.Data.Jobs {
			keys[j.JID] = j.Key
		}
		path = l.Next
	}
	form := url.Values{"do": {"delete"}, "key": {keys[jobs[0]], keys[jobs[300]], keys[jobs[600]]}}
	_, text := s.post("/dead/ticked", form)
	contains(t, "deleted", text, "3 jobs deleted.")
	s.rdb.ZRemRangeByRank(ctx, "dead", -301, -1) // what stood before others has gone
	_, text = s.post("/dead/ticked", url.Values{"do": {"retry"}, "key": {keys[jobs[598]]}})
	contains(t, "retried", text, "1 job retried.")

	s.rdb.ZAdd(ctx, "dead", z(1795000009, "junk {"))
	_, text = s.post("/dead/ticked", url.Values{"do": {"retry"}, "key": {s.first("/dead")}})
	contains(t, "what is no job", text, "1 left where they were", "Nothing was retried.")

	seed(t, s.rdb, "schedule", 1, "1795000000", plainJob)
	key := s.first("/scheduled")
	_, text = s.post("/scheduled/ticked", url.Values{"do": {"reschedule"}, "at": {"2h"}, "key": {key}, "jid": {"j1"}})
	contains(t, "rescheduled", text, "1 job rescheduled.", "It was pushed for")
	at := time.Unix(int64(s.rdb.ZScore(ctx, "schedule", s.rdb.ZRange(ctx, "schedule", 0, 0).Val()[0]).Val()), 0)
	if d := time.Until(at); d < 119*time.Minute || d > 2*time.Hour {
		t.Errorf("rescheduled to %v", at)
	}
	for name, form := range map[string]url.Values{
		"no action": {"key": {key}}, "no rows": {"do": {"retry"}}, "no key": {"do": {"retry"}, "key": {"x"}}, "no time": {"do": {"reschedule"}, "key": {key}}, "junk time": {"do": {"reschedule"}, "at": {"soon"}, "key": {key}},
	} {
		if status, text := s.post("/scheduled/ticked", form); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	dead := s.rdb.ZRangeWithScores(ctx, "dead", 0, -1).Val()
	for _, do := range []string{"kill", "reschedule"} { // by every way that there is
		for _, path := range []string{"/dead/ticked", "/dead/all"} {
			status, text := s.post(path, url.Values{"do": {do}, "at": {"2h"}, "key": {s.first("/dead")}, "count": {"1"}}, "Accept", "application/json")
			if contains(t, path, text, "what is dead stays so"); status != http.StatusBadRequest {
				t.Errorf("%s of a dead job at %s: %d", do, path, status)
			}
		}
		if status, _, _ := s.do(http.MethodGet, "/dead/all?do="+do, ""); status != http.StatusBadRequest {
			t.Errorf("the question for %s: %d", do, status)
		}
	}
	if after := s.rdb.ZRangeWithScores(ctx, "dead", 0, -1).Val(); !slices.Equal(after, dead) {
		t.Errorf("the dead set has changed")
	}
}

// Rows of a page from before a restart of the dashboard are known after it, of sets and of queues.
func TestTickedBeforeARestart(t *testing.T) {
	s := start(t)
	seed(t, s.rdb, "retry", 2, "1795000000 + i", plainJob)
	seed(t, s.rdb, "schedule", 2, "1795000000 + i", plainJob)
	harness.Must(client.New(s.rdb).PushClass(t.Context(), "A", nil, client.Queue("q")))(t)
	key, other := s.first("/retries"), s.first("/scheduled")
	queued := s.first("/queues/q")
	if key == other {
		t.Error("the same bytes in two sets have one name")
	}
	again := harness.Must(New(Options{Redis: s.rdb, Authorize: byHeader}))(t)
	t.Cleanup(again.Close)
	s.serve(again)
	_, text := s.post("/retries/ticked", url.Values{"do": {"delete"}, "key": {key}})
	contains(t, "of a set", text, "1 job deleted.")
	_, text = s.post("/queues/q/delete", url.Values{"key": {queued}})
	contains(t, "of a queue", text, "is deleted from the queue q.")
}
