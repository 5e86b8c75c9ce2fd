package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/periodic"
	"github.com/troupehq/troupe/internal/test/harness"
)

// The pages of periodic jobs tell what there is and why it did not run, and what is done there is done in Redis
// and is in the audit.
func TestPeriodic(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	contains(t, "without any", s.get("/periodic"), "There are no periodic jobs", "troupe periodic add")
	i := inspect.New(s.rdb)
	harness.OK(t, i.SavePeriodic(ctx,
		troupe.Periodic{Name: "nightly", Cron: "0 4 * * * Europe/Berlin", Class: "Report", Queue: "low", Missed: troupe.MissedLast, Args: []any{map[string]any{"token": "s3cr3t", "day": 1}}},
		troupe.Periodic{Name: "an hour", Cron: "@hourly", Class: "Report", Disabled: true}))
	for _, old := range []string{"nightly", "zz"} { // of sidekiq-cron 1, of which one cannot be carried out
		s.rdb.SAdd(ctx, keys.PeriodicSet(""), keys.PeriodicJob("", old, false))
		s.rdb.HSet(ctx, keys.PeriodicJob("", old, false), "name", old, "klass", "Old", "cron", map[string]string{"nightly": "0 5 * * *", "zz": "61 * * * *"}[old], "status", "enabled", "message", `{"class":"Old","queue":"default","args":[]}`)
	}

	list := s.get("/periodic")
	contains(t, "the list", list, "4 jobs", "0 4 * * * Europe/Berlin", "an%20hour?namespace=default", "stuck</span>", `It cannot be carried out: cron line &#34;61 * * * *&#34;`, `<span class="tag">no namespace</span>`, "Enable an hour")
	if strings.Index(list, ">zz</a>") > strings.Index(list, ">an hour</a>") {
		t.Error("what is stuck is not first")
	}
	hasNot(t, "a viewer's list", s.get("/periodic", "Role", "viewer"), "<button class=\"small\"")

	one := s.get("/periodic/nightly?namespace=default")
	contains(t, "the page of one", one, `{&#34;day&#34;:1,&#34;token&#34;:&#34;[masked]&#34;}`, "Nothing keeps it from its ticks", "Delete…", `<dt>Missed ticks</dt><dd>last</dd>`)
	if n := strings.Count(one, "</time></li>"); n != 5 {
		t.Errorf("%d next ticks, expected 5:\n%s", n, one)
	}
	contains(t, "an admin who wants to see", s.get("/periodic/nightly?namespace=default&reveal=1"), "s3cr3t")
	hasNot(t, "an operator who wants to see", s.get("/periodic/nightly?namespace=default&reveal=1", "Role", "operator"), "s3cr3t", "Delete…")
	contains(t, "the old one", s.get("/periodic/nightly?namespace=-"), "0 5 * * *")
	if status, text, _ := s.do("GET", "/periodic/nobody", ""); status != http.StatusNotFound {
		t.Errorf("one that is not there: %d\n%s", status, text)
	}

	do := func(path string, form url.Values, want string) {
		t.Helper()
		if status, text := s.post(path, form); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("POST %s: %d, expected %q\n%s", path, status, want, text)
		}
	}
	state := func(name, space string) string {
		t.Helper()
		return s.rdb.HGet(ctx, keys.PeriodicJob(space, name, false), "status").Val()
	}
	do("/periodic/nightly/disable?namespace=default", url.Values{"back": {"list"}}, "The periodic job nightly is disabled")
	if state("nightly", "default") != "disabled" || state("nightly", "") != "enabled" {
		t.Errorf("states: %s, of the old one %s", state("nightly", "default"), state("nightly", ""))
	}
	contains(t, "the page of a disabled one", s.get("/periodic/nightly?namespace=default"), "It is disabled.", `<h2 id="next">Next ticks</h2><p class="muted">None.`)
	do("/periodic/nightly/enable?namespace=default", nil, "is enabled: its next tick pushes")
	harness.Equal(t, "the state", state("nightly", "default"), "enabled")
	do("/periodic/nightly/push?namespace=default", nil, "is pushed to the queue low")
	jobs := s.rdb.LRange(ctx, keys.Queue("low"), 0, -1).Val()
	if len(jobs) != 1 || !strings.Contains(jobs[0], "s3cr3t") {
		t.Fatalf("pushed: %v", jobs)
	}
	p := harness.Must(troupe.ParsePayload([]byte(jobs[0])))(t)
	jid := p.JID()
	contains(t, "the page of its job", s.get("/jobs/"+jid), `<dt>Periodic job</dt><dd><a href="/periodic/nightly">nightly</a>, beside its ticks</dd>`, "It was pushed from the periodic job nightly, beside its ticks.")
	p.SetString(periodic.TickField, "2026-11-26T03:00:00Z") // as a tick pushes it
	s.rdb.LSet(ctx, keys.Queue("low"), 0, p.Bytes())
	contains(t, "the page of a tick's job", s.get("/jobs/"+jid), `nightly</a>, tick of <time`, "It was pushed by the periodic job nightly, for its tick of <time", "tick of the periodic job nightly</span>")
	contains(t, "the pushes", s.get("/periodic/nightly?namespace=default"), `/jobs/`+jid)
	if status, text := s.post("/periodic/zz/push?namespace=-", nil); status != http.StatusConflict || !strings.Contains(text, "minute &#34;61&#34;: expected 0 to 59") {
		t.Errorf("pushing one that cannot be: %d\n%s", status, text)
	}
	contains(t, "the question", s.get("/periodic/nightly/delete?namespace=-"), "Delete the periodic job nightly?", "Its ticks push nothing any more.")
	do("/periodic/nightly/delete?namespace=-", url.Values{"count": {"1"}}, "The periodic job nightly is deleted.")
	if state("nightly", "") != "" || state("nightly", "default") != "enabled" {
		t.Error("the wrong one is deleted")
	}
	contains(t, "the audit", s.get("/audit"), "The periodic job nightly is disabled", jid, `href="/periodic/nightly?namespace=default"`, "The periodic job nightly is deleted")
	if status, _ := s.post("/periodic/nightly/disable", nil, "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden || state("nightly", "default") != "enabled" {
		t.Errorf("from another site: %d", status)
	}
}

// What a configuration has is there again: the question says so. A long list has pages, whatever the names.
func TestPeriodicOfAConfiguration(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	var all []troupe.Periodic
	for n := range rows + 5 {
		all = append(all, troupe.Periodic{Name: fmt.Sprintf("job %03d", n), Cron: "@daily", Class: "C"})
	}
	all = append(all, troupe.Periodic{Name: "..", Cron: "@daily", Class: "C"}, troupe.Periodic{Name: "<b>&?#", Cron: "@daily", Class: "C"})
	harness.OK(t, inspect.New(s.rdb).SavePeriodic(ctx, all...))
	s.rdb.HSet(ctx, keys.PeriodicJob("default", "job 001", false), "troupe", `{"tag":"shop"}`, "troupe_last", fmt.Sprintf(`{"at":%q,"what":"missed","late":%d}`, time.Now().UTC().Truncate(24*time.Hour).Format(time.RFC3339), 2*time.Hour))
	contains(t, "the question", s.get("/periodic/job%20001/delete"), "It is there again when a process with the tag shop starts")
	contains(t, "a missed tick", s.get("/periodic/job%20001"), "was found 2h0m0s late, which is too late to push it")
	list := s.get("/periodic")
	contains(t, "the first page", list, "1–100 of 107", "/periodic?from=100", `<th scope="row">..</th>`)
	contains(t, "the second page", s.get("/periodic?from=100"), "101–107 of 107")
	contains(t, "a name of signs", s.get("/periodic/"+url.PathEscape("<b>&?#")+"?namespace=default"), "&lt;b&gt;&amp;?#")
}
