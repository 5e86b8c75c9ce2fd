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

	"github.com/troupehq/troupe/internal/test/harness"
)

// linkOf is the address of a link of a page, by a part of it.
func linkOf(t *testing.T, page, part string) string {
	t.Helper()
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if strings.Contains(m[1], part) {
			return strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	t.Fatalf("no link has %q:\n%s", part, page)
	return ""
}

// The page has each limit, what it allows and holds, and the page of a rule has the jobs, masked.
func TestLimitsAreShown(t *testing.T) {
	s := start(t)
	s.limited("mail", "1", "", 3)
	s.limited("account", "2 pinned 5", "7", 120)
	s.limited("account", "2 pinned 5", "<b>8", 1)
	harness.OK(t, s.rdb.HSet(t.Context(), "troupe:limits", "api", "3 6").Err())
	page := s.get("/limits")
	contains(t, "the list", page, "3 limits", "1 at once", "10 a minute, 3 together after a pause", "configured: 5 at once", "the configuration", "2 keys",
		`data-label="Held">121<`, `data-label="Held">3<`, `href="/limits/held?limit=mail"`, `href="/limits?limit=account"`, `href="/limits/set?limit=api"`, `href="/limits/reset?limit=account"`,
		"account:7", "account:&lt;b&gt;8")
	hasNot(t, "the list", page, "<b>8", "/limits/reset?limit=mail", "s3cr3t")
	if strings.Index(page, `"/limits/held?limit=mail"`) > strings.Index(page, `"/limits/set?limit=api"`) {
		t.Error("those that hold jobs are not first")
	}
	hasNot(t, "a viewer's", s.get("/limits", "Role", "viewer"), "Set…", "Reset…", "Release…")
	hasNot(t, "of one limit", s.get("/limits?limit=mail"), "account:7")
	contains(t, "the twin", string(s.data("/limits.json")), `"name":"account"`, `"allows":"2 at once"`, `"by_hand":true`, `"configured":"5 at once"`, `"held":121`, `"running":2`, `"oldest":"2026-11-1`)

	held := s.get("/limits/held?limit=mail")
	contains(t, "what it holds", held, ">3 jobs<", "3 jobs, the next one to be let in first", `href="/jobs/runs-mail"`, "They start by themselves", "held0", "[masked]", `href="/queues/a%2Fb%2Ejson"`, `href="/limits/release?limit=mail"`)
	hasNot(t, "what it holds", held, "s3cr3t")
	contains(t, "what it holds, revealed", s.get("/limits/held?limit=mail&reveal=1"), "s3cr3t")
	many := s.get(linkOf(t, page, "/limits/held?key="))
	contains(t, "a key", many, "account:7", ">120 jobs<", "1–100 of 120", "held99")
	hasNot(t, "a key", many, "held100")
	contains(t, "the rest of it", s.get(linkOf(t, many, "after=")), "101–120 of 120", "held119")
	contains(t, "the overview", s.get("/"), "by limits")
	for path, want := range map[string]int{"/limits/held": 400, "/limits/held?limit=none": 404, "/limits/held?limit=account&key=x": 404, "/limits/held?limit=mail&of=x": 404, "/limits/reset?limit=mail": 404, "/limits/set?limit=none": 404} {
		if status, text, _ := s.do(http.MethodGet, path, ""); status != want {
			t.Errorf("%s: %d, expected %d\n%s", path, status, want, text)
		}
	}
}

// The key of a rule is an argument of its jobs: it is hidden where arguments are, and no address has it.
func TestKeysOfLimitsAreMasked(t *testing.T) {
	for how, set := range map[string]func(*Options){
		"positions": func(o *Options) { o.MaskArgs = map[string][]int{"Charge": {1}} },
		"hide":      func(o *Options) { o.Args = "hide" },
	} {
		s := start(t, set)
		s.limited("account", "1", planted, 2)
		page := s.get("/limits")
		at := linkOf(t, page, "/limits/held?key=")
		release := linkOf(t, page, "/limits/release?key=")
		_, after := s.post(release, url.Values{"n": {"1"}, "reason": {"now"}})
		contains(t, how, after, "1 job that account:[")
		for what, text := range map[string]string{"the list": page, "the twin": s.get("/limits.json"), "the jobs": s.get(at), "the question": s.get(release), "after it": after, "the audit": s.get("/audit")} {
			hasNot(t, how+", "+what, text, planted)
		}
		hidden := s.get("/jobs/held1")
		contains(t, how, hidden, "Held by the limit account:[", "The limit account:[", "holds it since")
		hasNot(t, how+", the job", hidden, planted)
		contains(t, how+", revealed", s.get("/limits?reveal=1"), planted)
	}
}

// Operators let jobs in, set and reset what a limit allows, each with a reason.
func TestLimitsAreActedOn(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	s.limited("mail", "0", "", 150)
	text := func() string { return s.rdb.HGet(ctx, "troupe:limits", "mail").Val() }
	operator := []string{"Role", "operator"}
	act := func(path string, form url.Values, parts ...string) {
		t.Helper()
		_, page := s.post(path, form, operator...)
		contains(t, fmt.Sprint(path, form), page, parts...)
	}

	const release, set, reset = "/limits/release?limit=mail", "/limits/set?limit=mail", "/limits/reset?limit=mail"
	contains(t, "the question", s.get(release), "Let jobs in that mail holds?", "holds 150 jobs", `name="n"`, `name="reason"`)
	act(release, url.Values{"n": {"2"}}, "no reason was given")
	act(release, url.Values{"n": {"-1"}, "reason": {"x"}}, "expected 1 or more")
	harness.Equal(t, "waiting", s.rdb.LLen(ctx, "queue:a/b.json").Val(), 0)
	act(release, url.Values{"n": {"2"}, "reason": {"they are <late>"}}, "2 jobs that mail held: let in")
	harness.Equal(t, "waiting", s.rdb.LLen(ctx, "queue:a/b.json").Val(), 2)
	contains(t, "the next", s.rdb.LIndex(ctx, "queue:a/b.json", -1).Val(), `"jid":"held0"`)
	act(release, url.Values{"n": {"148"}, "reason": {"all"}}, "the number was not typed", `value="148"`)
	harness.Equal(t, "waiting", s.rdb.LLen(ctx, "queue:a/b.json").Val(), 2)
	act(release, url.Values{"n": {"9999"}, "reason": {"all"}, "count": {"148"}, "typed": {"148"}}, "148 jobs that mail held: let in")
	act(release, url.Values{"n": {"1"}, "reason": {"again"}}, "mail holds no job any more")

	contains(t, "the question", s.get(set), "What shall the limit mail allow?", "It allows 0 at once now")
	act(set, url.Values{"to": {"10/x"}, "reason": {"x"}}, "expected &#34;5&#34; at once")
	act(set, url.Values{"to": {"10/1m burst 3"}}, "no reason was given", `value="10/1m burst 3"`)
	harness.Equal(t, "the limit", text(), "0")
	act(set, url.Values{"to": {"10/1m burst 3"}, "reason": {"it is up again"}}, "The limit mail allows 10 a minute, 3 together after a pause now, in place of 0 at once.")
	harness.Equal(t, "the limit", text(), "3 6 pinned 0")
	contains(t, "the question", s.get(reset), "It allows 0 at once then, as the configuration says.")
	act(reset, url.Values{}, "no reason was given")
	act(reset, url.Values{"reason": {"as before"}}, "The limit mail allows 0 at once again.")
	harness.Equal(t, "the limit", text(), "0")
	act(reset, url.Values{"reason": {"as before"}}, "The limit mail was not set by hand. Nothing was changed.")

	audit := s.get("/audit?action=limits")
	contains(t, "the audit", audit, "they are &lt;late&gt;", "it is up again", "as before", "/limits/release", "/limits/set", "/limits/reset", "otto")
	for _, path := range []string{release, set, reset} {
		if status, _ := s.post(path, url.Values{"n": {"1"}, "to": {"1"}, "reason": {"x"}}, "Role", "viewer"); status != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d", path, status)
		}
	}
	var failed struct{ Error struct{ Text string } }
	_, answer := s.post(set, url.Values{"to": {"1"}}, "Accept", "application/json")
	if err := json.Unmarshal([]byte(answer), &failed); err != nil || !strings.Contains(failed.Error.Text, "no reason is given") {
		t.Errorf("as JSON without a reason: %v %s", err, answer)
	}
}

// What a rule holds is filtered, and ticked rows or all that match are let in, killed or deleted; on the page of a job likewise.
func TestHeldJobsAreActedOn(t *testing.T) {
	s := start(t, func(o *Options) { o.Args = "hide" })
	ctx := t.Context()
	s.limited("account", "1", planted, 130)
	s.limited("mail", "1", "", 3)
	held := func() int64 { return s.rdb.ZCard(ctx, "troupe:held:account:"+planted).Val() }
	at := linkOf(t, s.get("/limits"), "/limits/held?key=")
	found := s.get(at + "&q=held12")
	contains(t, "filtered", found, `type="hidden" name="key"`, `name="limit" value="account"`, ">11 of 130 jobs<", "held129", "Release, kill or delete all that match")
	hasNot(t, "filtered", found, "held119", planted, "Export")
	contains(t, "by the time of the push", s.get(at+"&from=2026-11-18T11:08:40Z"), ">10 of 130 jobs<")
	if status, text, _ := s.do(http.MethodGet, at+"&from=x", ""); status != http.StatusBadRequest || !strings.Contains(text, "The time from") {
		t.Errorf("a wrong filter: %d %s", status, text)
	}

	ticked := linkOf(t, strings.ReplaceAll(found, "action=", "href="), "/limits/held/ticked")
	jobs := s.list(at).Data.Jobs
	_, text := s.post(ticked, url.Values{"do": {"release"}, "key": {jobs[1].Key, jobs[3].Key, "1~0~x"}, "back": {"q=held1"}}, "Role", "operator")
	contains(t, "ticked", text, "2 jobs released.", "1 gone", `value="held1"`)
	harness.Equal(t, "waiting", s.rdb.LLen(ctx, "queue:a/b.json").Val(), 2)
	_, text = s.post(ticked, url.Values{"do": {"kill"}, "key": {jobs[4].Key}})
	contains(t, "killed", text, "1 job killed.")
	for _, do := range []string{"retry", "reschedule", "move"} {
		if status, text := s.post(ticked, url.Values{"do": {do}, "key": {jobs[0].Key}}); status != http.StatusBadRequest || !strings.Contains(text, "can be released, killed or deleted") {
			t.Errorf("%s: %d %s", do, status, text)
		}
	}
	if status, _ := s.post(ticked, url.Values{"do": {"delete"}, "key": {jobs[0].Key}}, "Role", "viewer"); status != http.StatusForbidden {
		t.Errorf("a viewer: %d", status)
	}

	contains(t, "a job", s.get("/jobs/held0"), "Release</button>", "Kill</button>", "Delete for good")
	hasNot(t, "a job", s.get("/jobs/held0"), "Reschedule", planted)
	_, text = s.post(ticked, url.Values{"do": {"delete"}, "key": {jobs[0].Key}, "jid": {"held0"}})
	contains(t, "the job", text, "1 job deleted.")
	harness.Equal(t, "held", held(), 126)

	all := linkOf(t, s.get(at+"&q=held12"), "/limits/held/all")
	preview := s.get(all)
	contains(t, "the preview", preview, "Release 11 jobs held by account:[", "the limit is exceeded by as many", `name="q" value="held12"`)
	hasNot(t, "the preview", preview, planted)
	post := linkOf(t, strings.ReplaceAll(preview, "action=", "href="), "/limits/held/all")
	task := s.begin(post, url.Values{"do": {"release"}, "q": {"held12"}, "count": {"11"}})
	harness.Equal(t, "released", s.ended(task).Counts.Done, 11)
	page := s.get(task)
	contains(t, "the task", page, "Release in held jobs", "held by account:[")
	task = s.begin(post, url.Values{"do": {"release"}, "count": {"5"}})
	s.ended(task)
	contains(t, "the next are the first", s.rdb.LIndex(ctx, "queue:a/b.json", -1).Val(), `"jid":"held8"`)
	task = s.begin(post, url.Values{"do": {"delete"}, "count": {"110"}, "typed": {"110"}})
	harness.Equal(t, "deleted", s.ended(task).Counts.Done, 110)
	harness.Equal(t, "held", held(), 0)
	harness.Equal(t, "held by another", s.rdb.ZCard(ctx, "troupe:held:mail").Val(), 3)
	audit := s.get("/audit")
	contains(t, "the audit", audit, "/limits/held/ticked", "/limits/held/all", "2 jobs released.", "11 jobs released.")
	for _, text := range []string{audit, page, s.get("/tasks")} {
		hasNot(t, "others read it", text, planted)
	}

	s.rdb.Del(ctx, "troupe:slots:account:"+planted)
	s.limited("account", "1", "7", 1)
	s.rdb.Del(ctx, "troupe:slots:account:7")
	at = linkOf(t, s.get("/limits"), "/limits/held?key=")
	_, text = s.post(strings.Replace(at, "/held?", "/held/ticked?", 1), url.Values{"do": {"delete"}, "key": {s.first(at)}})
	contains(t, "the last one of a key", text, "1 job deleted.", "Keys of account")
}

// A limit with a breaker shows its rests, and rests by hand.
func TestLimitsRest(t *testing.T) {
	s := start(t, func(o *Options) { o.Args = "hide" })
	ctx := t.Context()
	s.limited("api", "1000 0 breaker 3 60", "", 40)
	s.limited("hooks", "5 breaker 0 60", planted, 1)
	s.limited("mail", "1", "", 1)
	operator := []string{"Role", "operator"}
	page := s.get("/limits")
	contains(t, "the list", page, `href="/limits/rest?limit=api"`)
	hasNot(t, "the list", page, "rest?limit=mail", "rest?limit=hooks", "for=0", "rests until")
	contains(t, "the question", s.get("/limits/rest?limit=api"), "Have api rest?", `name="for"`, `name="reason"`)
	_, text := s.post("/limits/rest?limit=api", url.Values{"for": {"soon"}, "reason": {"x"}}, operator...)
	contains(t, "no time", text, "expected seconds")
	_, text = s.post("/limits/rest?limit=api", url.Values{"for": {"1h"}}, operator...)
	contains(t, "no reason", text, "no reason was given", `value="1h"`)
	harness.Equal(t, "it rests", s.rdb.Exists(ctx, "troupe:rest:api").Val(), 0)
	_, text = s.post("/limits/rest?limit=api", url.Values{"for": {"1h"}, "reason": {"they restart"}}, operator...)
	contains(t, "it rests", text, "api rests until 20", `href="/limits/rest?limit=api&amp;for=0"`)
	contains(t, "what it holds", s.get("/limits/held?limit=api"), "rests until 20", "Its breaker is open", "End the rest…")
	key := linkOf(t, s.get("/limits"), "/limits/held?key=")
	rest := linkOf(t, s.get(key), "/limits/rest?key=")
	_, text = s.post(rest, url.Values{"for": {"60"}, "reason": {"x"}}, operator...)
	contains(t, "a key", text, "hooks:[", "rest now: 1 key", "End the rest of hooks:[")
	hasNot(t, "a key", text, planted)
	contains(t, "the twin", s.get("/limits.json"), `"resting":1`, `"rests_until"`)
	contains(t, "its end", s.get("/limits/rest?limit=api&for=0"), "End the rest of api?")
	s.rdb.Del(ctx, "troupe:slots:api") // of one that has not started yet
	_, text = s.post("/limits/rest?limit=api&for=0", url.Values{"reason": {"they are up"}}, operator...)
	contains(t, "its end", text, "The rest of api has ended.")
	harness.Equal(t, "let in", s.rdb.LLen(ctx, "queue:a/b.json").Val(), 16)
	_, text = s.post("/limits/rest?limit=api&for=0", url.Values{"reason": {"they are up"}}, operator...)
	contains(t, "again", text, "api does not rest. Nothing was changed.")
	contains(t, "the audit", s.get("/audit?action=limits"), "they restart", "they are up", "/limits/rest")
	for path, want := range map[string]int{"/limits/rest?limit=mail": 404, "/limits/rest?limit=none": 404, "/limits/rest": 400} {
		if status, _, _ := s.do(http.MethodGet, path, ""); status != want {
			t.Errorf("%s: %d, expected %d", path, status, want)
		}
	}
	if status, _ := s.post("/limits/rest?limit=api", url.Values{"for": {"1h"}, "reason": {"x"}}, "Role", "viewer"); status != http.StatusForbidden {
		t.Errorf("a viewer: %d", status)
	}
}

// A search looks at what limits hold, all of it part by part, and its addresses tell no key.
func TestASearchFindsHeldJobs(t *testing.T) {
	s := start(t)
	s.limited("account", "1", planted, 120)
	s.limited("mail", "1", "", 3)
	page := s.get("/search?q=held119")
	contains(t, "by id", page, "Held by account:", "held119", `href="/jobs/held119"`)
	page = s.get("/search?q=held1")
	contains(t, "in both", page, "Held by account:", "Held by mail", "The first 10 of")
	var found struct{ Places []foundPlace }
	harness.OK(t, json.Unmarshal(s.data("/search.json?q=held2"), &found))
	count := 0
	for _, p := range found.Places {
		harness.Equal(t, "place", p.Place, "held")
		count += p.Count
	}
	harness.Equal(t, "found", count, 1+1+10) // held2 of both, held20 to held29
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		hasNot(t, "an address", m[1], planted)
	}
}

// A limit that no process has any more is named, and can be reset away.
func TestLimitsThatAreNotDefined(t *testing.T) {
	s := start(t)
	s.limited("gone", "2 pinned ", "", 1)
	_, page := s.post("/limits/reset?limit=gone", url.Values{"reason": {"nobody has it"}})
	contains(t, "reset", page, "The limit gone is gone: no configuration has it.", "nothing: it is not defined")
	contains(t, "what it held", s.get("/limits/held?limit=gone"), "No process that runs has this limit in its configuration")
	harness.OK(t, s.rdb.ZAdd(t.Context(), "troupe:held:gone", redis.Z{Score: 1, Member: "no job"}).Err())
	contains(t, "with what is no job", s.get("/limits/held?limit=gone"), ">2 jobs<", "no job:")
}
