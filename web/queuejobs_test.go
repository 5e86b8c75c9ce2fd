package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/test/harness"
)

// fillQueue pushes jobs into a queue; those of odd numbers are of the class C1, the others of C0.
func (s *site) fillQueue(name string, n int) {
	s.t.Helper()
	jobs := make([]any, n)
	for i := range jobs {
		jobs[i] = fmt.Sprintf(`{"class":"C%d","args":[%d,{"token":"s3cr3t"}],"queue":%q,"jid":"j%d","retry":true,"enqueued_at":%d}`, i%2, i, name, i, 1795000000+i)
	}
	harness.OK(s.t, s.rdb.LPush(s.t.Context(), "queue:"+name, jobs...).Err())
	s.rdb.SAdd(s.t.Context(), "queues", name)
}

// The page of a queue is filtered as those of the sets are, page by page, and so is its export.
func TestFilterOfAQueue(t *testing.T) {
	s := start(t)
	s.fillQueue("a/b", 500)
	const queue = "/queues/a%2Fb"
	if all := s.all(queue); len(all) != 500 || all[0] != "j0" || all[499] != "j499" {
		t.Errorf("%d jobs", len(all))
	}
	if odd := s.all(queue + "?class=C1"); len(odd) != 250 || odd[0] != "j1" || odd[249] != "j499" {
		t.Errorf("of a class: %d", len(odd))
	}
	if some := s.all(queue + "?from=1795000100&to=1795000103"); fmt.Sprint(some) != "[j100 j101 j102]" {
		t.Errorf("of a time: %v", some)
	}
	if got := s.all(queue + "?q=s3cr3t"); len(got) != 500 {
		t.Errorf("an admin finds %d by an argument", len(got))
	}
	if l := s.list(queue+"?q=s3cr3t", "Role", "viewer"); len(l.Data.Jobs) != 0 {
		t.Error("a viewer finds what is masked")
	}
	page := s.get(queue + "?class=C1")
	contains(t, "the page", page, `<form class="filter" action="/queues/a%2Fb">`, `name="class" value="C1"`, "Show all", `href="/queues/a%2Fb/export?class=C1" download>Export these`,
		"Kill, delete or move all that match…", `href="/queues/a%2Fb/all?do=move&amp;class=C1"`, "100 jobs that match, the next one to run first", `rel="next"`)
	contains(t, "without any", s.get(queue+"?class=None"), "Nothing found for class &#34;None&#34;")
	status, text, _ := s.do(http.MethodGet, queue+"?from=sometime", "")
	if contains(t, "a wrong time", text, "The time from: got", `value="sometime"`); status != http.StatusBadRequest {
		t.Errorf("a wrong time: %d", status)
	}
	if status, _, _ := s.do(http.MethodGet, queue+"?from=sometime", "", "Accept", "application/json"); status != http.StatusBadRequest {
		t.Errorf("a wrong time of a program: %d", status)
	}
	_, viewer, _ := s.do(http.MethodGet, queue, "", "Role", "viewer")
	hasNot(t, "a viewer's page", viewer, `id="tick"`, "all 500", "Delete from the queue", "s3cr3t")
	contains(t, "a viewer's page", viewer, `class="filter"`, "Export")
	_, operator, _ := s.do(http.MethodGet, queue, "", "Role", "operator")
	contains(t, "an operator's page", operator, `id="tick"`, `name="into"`)
	hasNot(t, "an operator's page", operator, "all 500")
	lines := strings.Split(strings.TrimSpace(s.get(queue+"/export?class=C1", "Role", "viewer")), "\n")
	var l bulk.Line
	if err := json.Unmarshal([]byte(lines[0]), &l); err != nil || len(lines) != 250 || l.Queue != "a/b" || l.Set != "" || !l.Masked || strings.Contains(*l.Job, "s3cr3t") {
		t.Errorf("the export: %d, %+v, %v", len(lines), l, err)
	}
	contains(t, "the search", s.get("/search?q=C1"), `href="/queues/a%2Fb?q=C1"`)
	s.fillQueue("long", mostSearched+500)
	contains(t, "a part without any", s.get("/queues/long?class=None"), "Nothing found so far for class &#34;None&#34;", "Search on")
}

// Ticked rows of a queue are moved, killed and deleted, wherever they are by now; who was faster is told.
func TestTickedOfAQueue(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.fillQueue("a", 300)
	s.rdb.SAdd(ctx, "queues", "b")
	jobs := s.list("/queues/a").Data.Jobs
	contains(t, "the page", s.get("/queues/a"), `<datalist id="others"><option value="b"></option></datalist>`)
	s.rdb.RPopCount(ctx, "queue:a", 10) // a process has taken those
	form := url.Values{"do": {"move"}, "into": {"b"}, "key": {jobs[3].Key, jobs[40].Key, jobs[50].Key}, "back": {"class=C0"}}
	_, text := s.post("/queues/a/ticked", form, "Role", "operator")
	contains(t, "moved", text, "2 jobs moved to the queue b.", "1 gone: somebody was faster (j3).", `But no process takes from the queue &#34;b&#34;: jobs wait there until one does.`, `name="class" value="C0"`)
	if got := s.all("/queues/b"); fmt.Sprint(got) != "[j40 j50]" || s.rdb.LLen(ctx, "queue:a").Val() != 288 {
		t.Errorf("moved: %v", got)
	}
	if raw := s.rdb.LIndex(ctx, "queue:b", -1).Val(); !strings.Contains(raw, `"queue":"b"`) {
		t.Error(raw)
	}
	_, text = s.post("/queues/a/ticked", url.Values{"do": {"kill"}, "key": {jobs[60].Key}}, "Accept", "application/json")
	contains(t, "killed", text, `"kind":"ok"`, "1 job killed.", `"done":1`)
	_, text = s.post("/queues/a/ticked", url.Values{"do": {"delete"}, "key": {jobs[61].Key, jobs[61].Key}}, "Accept", "application/json")
	contains(t, "deleted", text, "1 job deleted.", "1 gone")
	if s.rdb.ZCard(ctx, "dead").Val() != 1 || s.rdb.LLen(ctx, "queue:a").Val() != 286 {
		t.Error("it was not done")
	}
	_, text = s.post("/queues/a/ticked", url.Values{"do": {"move"}, "into": {"new"}, "key": {jobs[70].Key}})
	contains(t, "a queue that is not known", text, "no queue &#34;new&#34; is known")
	s.rdb.Set(ctx, "queue:odd", "x", 0)
	s.rdb.SAdd(ctx, "processes", "h:1:a")
	s.rdb.HSet(ctx, "h:1:a", "info", `{"hostname":"h","pid":1,"identity":"h:1:a","concurrency":1,"queues":["php"]}`, "beat", 1795000000, "quiet", "false", "busy", 0)
	pipe := s.rdb.Pipeline()
	beat.WritePulse(ctx, pipe, "h:1:a", (beat.Pulse{Phase: "running", Elsewhere: map[string]string{"php": "laravel"}}).JSON(), time.Now())
	harness.Must(pipe.Exec(ctx))(t)
	before := s.rdb.LLen(ctx, "queue:a").Val()
	for want, form := range map[string]url.Values{
		"The queue to move to: got the queue": {"do": {"move"}, "into": {""}}, "expected another one": {"do": {"move"}, "into": {"a"}},
		"a string, expected a list of jobs": {"do": {"move"}, "into": {"odd"}}, "is a queue of laravel in the process h:1:a": {"do": {"move"}, "into": {"php"}},
		"a job that waits in a queue can be moved, killed or deleted": {"do": {"retry"}}, "expected one that it has": {"do": {"eat"}},
	} {
		form.Set("key", jobs[80].Key)
		if status, text := s.post("/queues/a/ticked", form, "Accept", "application/json"); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%v: %d %s, expected %s", form, status, text, want)
		}
	}
	for _, key := range []string{"1e300~0~x", "-5~0~x", "Inf~0~x", "99999~0~x"} { // made up
		if status, text := s.post("/queues/a/ticked", url.Values{"do": {"delete"}, "key": {key}}); status != http.StatusOK || !strings.Contains(text, "1 gone") {
			t.Errorf("%s: %d", key, status)
		}
	}
	if s.rdb.LLen(ctx, "queue:a").Val() != before {
		t.Error("something was done")
	}
	last := s.audited()
	for i, e := range last {
		if e.Action == "/queues/{name}/ticked" && e.Filter["into"] == "b" {
			if fmt.Sprint(e.Jobs) != "[j3 j40 j50]" || e.Path != "/queues/a/ticked" || e.User != "otto" || string(e.Counts) != `{"done":2,"gone":1,"stopped":0,"left":0}` {
				t.Errorf("the audit: %+v", e)
			}
			return
		}
		if i == len(last)-1 {
			t.Errorf("the audit has none of it: %+v", last)
		}
	}
}

// All jobs of a queue that a filter chooses are moved by a task, and not more than were counted.
func TestAllOfAQueue(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.fillQueue("a", 301)
	s.rdb.SAdd(ctx, "queues", "b")
	s.rdb.SAdd(ctx, "paused", "b")
	preview := s.get("/queues/a/all?do=move&class=C1")
	contains(t, "the preview", preview, "Move 150 jobs of Queue a?", "Those with class &#34;C1&#34;.", `name="count" value="150"`, `name="typed"`, `name="into"`, `<option value="b">`, "its retries go there, too", "The first 10 of them", "j1<", "j19<")
	hasNot(t, "the preview", preview, "j2<", "s3cr3t")
	contains(t, "all of them", s.get("/queues/a/all?do=delete"), "Delete 301 jobs of Queue a?", "there is no filter")
	form := url.Values{"do": {"move"}, "into": {"b"}, "class": {"C1"}, "count": {"150"}}
	if status, _ := s.post("/queues/a/all", form, "Role", "operator"); status != http.StatusForbidden {
		t.Errorf("an operator: %d", status)
	}
	_, text := s.post("/queues/a/all", form)
	contains(t, "without the number", text, "the number was not typed", `name="into" value="b"`)
	if s.rdb.LLen(ctx, "queue:b").Val() != 0 {
		t.Fatal("it was not asked for the number")
	}
	form.Set("typed", "150")
	path := s.begin("/queues/a/all", form)
	end := s.ended(path)
	if end.State != "done" || end.Counts.Done != 150 || end.Set != "queue:a" || s.rdb.LLen(ctx, "queue:b").Val() != 150 || s.rdb.LLen(ctx, "queue:a").Val() != 151 {
		t.Errorf("%+v", end)
	}
	contains(t, "its page", s.get(path), "Move in Queue a", "moved to the queue b", "150 of 150")
	contains(t, "the list", s.get("/tasks"), "Move in Queue a")
	form.Set("do", "kill")
	form.Del("class")
	form.Set("count", "50")
	if end = s.ended(s.begin("/queues/a/all", form)); end.Counts.Done != 50 || s.rdb.ZCard(ctx, "dead").Val() != 50 {
		t.Errorf("those that were counted: %+v", end)
	}
	s.h.Close() // the audit is written at the end of a task
	var told []string
	for _, e := range s.audited() {
		if e.Task != "" && e.Filter["do"] == "move" {
			told = append(told, e.Outcome+" "+e.Path+" "+e.Filter["into"]+": "+e.Text)
		}
	}
	all := strings.Join(told, "\n")
	contains(t, "the audit", all, "begun /queues/a/all b: It has begun: move of 150 jobs. But the queue \"b\" is paused", "done /queues/a/all b: Task "+strings.TrimPrefix(path, "/tasks/")+" done: 150 jobs moved to the queue b.")
}
