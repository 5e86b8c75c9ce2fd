package web

import (
	"net/http"
	"net/url"
	"testing"

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
	contains(t, "one", one, "Where its jobs are", "<dt>scheduled</dt><dd>1 job</dd>", "<dt>batches within it</dt><dd>1 job</dd>", "<dt>nowhere</dt><dd>2 jobs: Ruby has run", "troupe batches count-out b1",
		`<dt>success</dt><dd>After <a href="/jobs/callback1">`, "not pushed", "Batches within it", `href="/batches/b1/close"`, `href="/batches/b1/cancel"`, "It does not end by itself")
	hasNot(t, "one", one, "s3cr3t")
	hasNot(t, "a viewer's", s.get("/batches/b1", "Role", "viewer"), "Close…", "Cancel…")
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
