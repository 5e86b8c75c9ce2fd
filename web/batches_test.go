package web

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/test/harness"
)

// The list has each batch, the page of one what it waits for and pushes, and the page of a job its batch; nothing secret is told.
func TestBatchesAreShown(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.batched("b1", 4)
	s.batched("b2", 1)
	harness.OK(t, s.rdb.HSet(ctx, "troupe:batch:b2", "parent", "b1:3", "closed", "1", "name", "").Err())
	harness.OK(t, s.rdb.SAdd(ctx, "troupe:batch:b1:children", "b2").Err())
	page := s.get("/batches")
	contains(t, "the list", page, "2 batches, the newest first.", `<a href="/batches/b1">import &lt;b&gt; token=[`, `<code>b2</code></a> <span class="sub">in <a href="/batches/b1">`, `data-label="Not done">4<`)
	hasNot(t, "the list", page, "s3cr3t")
	hasNot(t, "the open ones", s.get("/batches?only=open"), `"/batches/b2"`)
	stuck := s.get("/batches?only=stuck")
	contains(t, "the stuck ones", stuck, `href="/batches/b1"`, "2 jobs are nowhere")
	one := s.get("/batches/b1")
	contains(t, "one", one, "Where its jobs are", "<dt>scheduled</dt><dd>1 job</dd>", "<dt>batches within it</dt><dd>1 job</dd>", "<dt>nowhere</dt><dd>2 jobs: Ruby has run", `href="/batches/b1/count-out">counted out…`,
		`<dt>success</dt><dd>After <a href="/jobs/callback1">`, "not pushed", "Batches within it", `href="/batches/b1/close"`, `href="/batches/b1/cancel"`, "It does not end by itself")
	hasNot(t, "one", one, "s3cr3t")
	viewers := s.get("/batches/b1", "Role", "viewer")
	hasNot(t, "a viewer's", viewers, "Close…", "Cancel…", "counted out…")
	contains(t, "a viewer's", viewers, "after <code>troupe batches count-out b1")
	contains(t, "the twin", string(s.data("/batches/b1.json")), `"missing":2`, `"children":[{"batch":"b2"`, `"state":"open"`)
	contains(t, "the job", s.get("/jobs/inb1"), `<dt>Batch</dt><dd><a href="/batches/b1">`, "job 0 of 4, 4 not done")
	contains(t, "the callback", s.get("/jobs/callback1"), "A callback that was not pushed yet", `href="/batches/b`)
	for path, want := range map[string]int{"/batches/none": 404, "/batches?only=x": 400, "/batches/none/close": 404} {
		if status, text, _ := s.do(http.MethodGet, path, ""); status != want {
			t.Errorf("%s: %d, expected %d\n%s", path, status, want, text)
		}
	}
}

// A batch is closed by an operator and cancelled by an admin, with a reason.
func TestBatchesAreActedOn(t *testing.T) {
	s := start(t)
	s.batched("b1", 1)
	field := func(name string) string { return s.rdb.HGet(t.Context(), "troupe:batch:b1", name).Val() }
	_, page := s.post("/batches/b1/close", url.Values{}, "Role", "operator")
	contains(t, "without a reason", page, "no reason was given")
	harness.Equal(t, "closed", field("closed"), "")
	_, page = s.post("/batches/b1/close", url.Values{"reason": {"its program is gone"}}, "Role", "operator")
	contains(t, "closed", page, "The batch b1 is closed.")
	harness.Equal(t, "closed", field("closed"), "1")
	if status, _ := s.post("/batches/b1/cancel", url.Values{"reason": {"x"}}, "Role", "operator"); status != http.StatusForbidden {
		t.Errorf("an operator cancels: %d", status)
	}
	_, page = s.post("/batches/b1/cancel", url.Values{"reason": {"it is wrong"}})
	contains(t, "cancelled", page, "The batch b1 is cancelled.")
	_, page = s.post("/batches/b1/cancel", url.Values{"reason": {"again"}})
	contains(t, "again", page, "The batch b1 has ended. Nothing was done.")
	contains(t, "the audit", s.get("/audit?action=batches"), "its program is gone", "it is wrong")
}

// Missing jobs of a batch are counted out by a task, when they were looked for twice; the reason and what became of it are in the audit.
func TestMissingJobsAreCountedOut(t *testing.T) {
	s := start(t)
	s.h.looksApart = time.Millisecond
	s.batched("b1", 4)
	ctx, path := t.Context(), "/batches/b1/count-out"
	field := func(name string) string { return s.rdb.HGet(ctx, "troupe:batch:b1", name).Val() }
	contains(t, "it asks", s.get(path), "Count 3 jobs of the batch b1 as done?", "looked for once more", "no way back", `name="reason"`)
	form := url.Values{"reason": {"Ruby has run them"}}
	if status, _ := s.post(path, form, "Role", "operator"); status != http.StatusForbidden {
		t.Errorf("an operator counts out: %d", status)
	}
	_, page := s.post(path, url.Values{})
	contains(t, "without a reason", page, "no reason was given")
	harness.Equal(t, "not done before", field("pending"), "4")
	task := s.begin(path, form)
	end := s.ended(task)
	harness.Equal(t, "the task", fmt.Sprint(end.State, end.Counts), fmt.Sprint("done", bulk.Counts{Done: 3}))
	harness.Equal(t, "not done", field("pending")+" "+field("unrun"), "1 1")
	contains(t, "its page", s.get(task), "Count out in the batch b1", `<dd class="value">3</dd><dd class="more">counted out`)
	contains(t, "the audit", s.get("/audit?action=batches"), "Ruby has run them", "3 jobs of the batch b1 are looked for once more", "3 jobs counted out", `href="/batches/b1"`)
	hasNot(t, "the batch", s.get("/batches/b1"), "nowhere")

	for path, want := range map[string]int{path: 404, "/batches/none/count-out": 404} {
		if status, text, _ := s.do(http.MethodGet, path, ""); status != want {
			t.Errorf("%s: %d, expected %d\n%s", path, status, want, text)
		}
	}
	_, page = s.post(path, form)
	contains(t, "again", page, "No job of the batch b1 is missing. Nothing was done.")

	s.batched("b2", 2)
	s.h.looksApart = time.Hour
	task = s.begin("/batches/b2/count-out", form)
	s.post(task+"/cancel", nil)
	harness.Equal(t, "cancelled between the looks", s.ended(task).State, "stopped")
	harness.Equal(t, "not done then", s.rdb.HGet(ctx, "troupe:batch:b2", "pending").Val(), "2")
}
