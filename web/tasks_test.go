package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/words"
)

func z(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// begin starts a task and returns its address.
func (s *site) begin(path string, form url.Values) string {
	s.t.Helper()
	status, text := s.post(path, form, "Accept", "application/json")
	var v struct {
		Data struct{ Counts struct{ Task string } }
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil || status != http.StatusOK || v.Data.Counts.Task == "" {
		s.t.Fatalf("%d %s, %v", status, text, err)
	}
	return "/tasks/" + v.Data.Counts.Task
}

func (s *site) taskAt(path string) (state bulk.Progress) {
	s.t.Helper()
	if err := json.Unmarshal(s.data(path+".json"), &state); err != nil {
		s.t.Fatal(err)
	}
	return state
}

// ended waits for the end of a task.
func (s *site) ended(path string) bulk.Progress {
	s.t.Helper()
	var state bulk.Progress
	harness.Await(s.t, "the task ends", func() bool { state = s.taskAt(path); return state.State != "running" })
	return state
}

func TestAllThatMatch(t *testing.T) {
	log := &harness.Buffer{}
	s := start(t, func(o *Options) { o.Logger = zerolog.New(log) })
	ctx := t.Context()
	seed(t, s.rdb, "dead", 1000, "1795000000 + i", plainJob)
	s.rdb.ZAdd(ctx, "dead", z(1795000000, `{"class":"Work","args":[],"jid":"`+fixtureJID+`","error_class":"E","error_message":"failed 3","queue":5}`))
	preview := s.get("/dead/all?do=retry&error=failed+3")
	contains(t, "the preview", preview, "Retry 101 jobs", `name="count" value="101"`, `name="typed"`, `name="error" value="failed 3"`, "j993", "j903", "The first 10 of them", "put into its queue now")
	hasNot(t, "the preview", preview, "j893")
	contains(t, "one with a time", s.get("/dead/all?do=delete&to=10m"), `name="to" value="20`, "Delete 1,001 jobs", "This cannot be taken back")
	contains(t, "one for nothing", s.get("/dead/all?do=delete&class=None"), "No job of Dead matches")

	form := url.Values{"do": {"retry"}, "error": {"failed 3"}, "count": {"101"}}
	if _, text := s.post("/dead/all", form); s.rdb.LLen(ctx, "queue:default").Val() != 0 {
		t.Error("it was not asked for the number")
	} else {
		contains(t, "the page", text, "the number was not typed", "Retry 101 jobs")
	}
	if status, _ := s.post("/dead/all", form, "Accept", "application/json"); status != http.StatusBadRequest {
		t.Errorf("a program that does not confirm: %d", status)
	}
	form.Set("typed", "101")
	seed(t, s.rdb, "dead", 20, "1795002000 + i", `'{"class":"Late","args":[],"jid":"late' .. i .. '","error_class":"E","error_message":"failed 3"}'`)
	path := s.begin("/dead/all", form)
	end := s.ended(path)
	if end.State != "done" || end.Counts.Sum() != 101 || s.rdb.LLen(ctx, "queue:default").Val() != int64(end.Counts.Done) || end.Total != 101 || end.User != "ann" {
		t.Errorf("%+v", end)
	}
	contains(t, "the page of it", s.get(path), "<progress", "101 of 101", "somebody was faster", "error &#34;failed 3&#34;")
	contains(t, "the list", s.get("/tasks"), path, "Retry in Dead", "done")
	contains(t, "the page of the audit", s.get("/audit"), "begun</span>", `<a href="`+path+`">Task `+end.ID+`</a>`)
	s.h.Close() // the audit is written at the end of the task
	contains(t, "the audit", log.String(), `"user":"ann"`, `"action":"/dead/all"`, "Task "+end.ID+" done: 101 jobs retried.")
	var got []string
	for _, e := range s.audited() {
		if e.Task != "" {
			got = append(got, e.Task+" "+e.Outcome)
		}
	}
	if want := end.ID + " done, " + end.ID + " begun"; strings.Join(got, ", ") != want {
		t.Errorf("the audit: %q, expected %s", got, want)
	}
}

func TestTasksAreBounded(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	seed(t, s.rdb, "retry", 60_000, "1795000000 + i", plainJob)
	form := url.Values{"do": {"kill"}, "count": {"60000"}, "typed": {"60000"}}
	var paths []string
	for range bulk.MostRunning {
		paths = append(paths, s.begin("/retries/all", form))
	}
	status, text := s.post("/retries/all", form)
	harness.Equal(t, "a fifth one", status, http.StatusTooManyRequests)
	contains(t, "the fifth", text, "Four tasks run already")
	running := s.get(paths[0])
	contains(t, "one that runs", running, `http-equiv="refresh"`, `data-topic="overview"`, "Cancel")
	if status, _ := s.post(paths[0]+"/cancel", nil, "Role", "operator"); status != http.StatusForbidden {
		t.Errorf("cancelled by an operator: %d", status)
	}
	_, text = s.post(paths[0]+"/cancel", nil)
	contains(t, "after cancel", text, "The task is being cancelled")
	end := s.ended(paths[0])
	if end.State != "stopped" || end.CancelledBy != "ann" || end.Met() == 60_000 {
		t.Errorf("cancelled: %+v", end)
	}
	contains(t, "the page of it", s.get(paths[0]), "cancelled", "Cancelled by", fmt.Sprintf("%d %%</progress> <span>%s of 60,000", end.Percent(), words.Count(end.Met())))
	if c := end.Counts; c.Left != 60_000-end.Met() || end.Percent() != 100*end.Met()/60_000 {
		t.Errorf("cancelled after %d: %d left, %d %%", c.Done, c.Left, end.Percent())
	}
	_, text = s.post(paths[0]+"/cancel", nil)
	contains(t, "cancelled again", text, "has ended already")

	s.h.Close() // it waits for the others
	done := 0
	for _, state := range s.h.tasks.States() {
		if state.Ended.IsZero() || state.State != "stopped" {
			t.Errorf("after Close: %+v", state)
		}
		done += state.Counts.Done
	}
	if left := s.rdb.ZCard(ctx, "retry").Val(); left != 60_000-int64(done) {
		t.Errorf("%d are left, %d done", left, done)
	}
}

func TestLastTasksAreRemembered(t *testing.T) {
	s := start(t)
	contains(t, "no tasks", s.get("/tasks"), "No task has run")
	seed(t, s.rdb, "dead", bulk.MostTasks+5, "1795000000 + i", plainJob)
	var last string
	for i := range bulk.MostTasks + 5 {
		last = s.begin("/dead/all", url.Values{"do": {"delete"}, "class": {"Work"}, "q": {fmt.Sprintf("j%d", i+1)}, "count": {"1"}})
		s.ended(last)
	}
	list := s.get("/tasks")
	harness.Equal(t, "tasks", len(regexp.MustCompile(`href="/tasks/[a-z0-9]+"`).FindAllString(list, -1)), bulk.MostTasks)
	contains(t, "the list", list, last)
	if status, _, _ := s.do(http.MethodGet, "/tasks/none", ""); status != http.StatusNotFound {
		t.Errorf("a task that is not there: %d", status)
	}
}
