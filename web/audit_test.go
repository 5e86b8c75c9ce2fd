package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/console/audit"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
)

func (s *site) audited() (all []audit.Entry) {
	s.t.Helper()
	for _, key := range []string{keys.Audit, keys.AuditRefused} {
		for _, text := range s.rdb.LRange(s.t.Context(), key, 0, -1).Val() {
			var e audit.Entry
			harness.OK(s.t, json.Unmarshal([]byte(text), &e))
			all = append(all, e)
		}
	}
	return all
}

// Actions are in the audit with who, where, what and how it ended: those that were refused, log-ins
// and reveals, too. Passwords are not.
func TestAudit(t *testing.T) {
	set, tokens := withUsers(t)
	s := start(t, set)
	s.fixture()
	ann, vera := "troupe="+s.signIn("ann", time.Hour), "troupe="+s.signIn("vera", time.Hour)
	same := []string{"Sec-Fetch-Site", "same-origin"}
	s.ask(s.h, http.MethodPost, "/queues/mail/pause", "back=list", append(same, "Cookie", ann)...)
	s.ask(s.h, http.MethodPost, "/queues/mail/pause", "", append(same, "Cookie", vera)...)
	s.ask(s.h, http.MethodPost, "/queues/mail/unpause", "", "Sec-Fetch-Site", "cross-site", "Cookie", ann)
	s.ask(s.h, http.MethodPost, "/queues/mail/unpause", "", "Authorization", "Bearer "+tokens["operator"])
	s.ask(s.h, http.MethodPost, "/queues/mail/unpause", "")
	s.ask(s.h, http.MethodPost, "/login", logInForm("ann", goodPassword, ""), append(same, "From", "127.0.0.9:1")...)
	s.ask(s.h, http.MethodPost, "/login", logInForm("ann", "hunter2hunter2", ""), same...)
	s.ask(s.h, http.MethodPost, "/login", logInForm("hunter2hunter2", "x", ""), same...)
	for range 3 {
		s.ask(s.h, http.MethodGet, "/queues/a%2Fb%2Ejson?reveal=1", "", "Cookie", ann)
	}
	s.ask(s.h, http.MethodGet, "/queues/a%2Fb%2Ejson?reveal=1", "", "Cookie", vera) // reveals nothing
	var got []string
	for _, e := range s.audited() {
		if e.At.IsZero() || !strings.HasPrefix(e.Address, "127.0.0.") || strings.Contains(e.Address, ":") {
			t.Errorf("%+v", e)
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %s %v %s", e.User, e.Role, e.Action, e.Path, e.Outcome, e.Filter, e.Counts))
	}
	want := strings.Split(strings.TrimSpace(`
ann admin reveal /queues/{name} /queues/a%2Fb%2Ejson done map[reveal:1] null
ann admin /login /login done map[] null
bot-operator operator /queues/{name}/unpause /queues/mail/unpause done map[] {"paused":false}
ann admin /queues/{name}/unpause /queues/mail/unpause refused map[] 
vera viewer /queues/{name}/pause /queues/mail/pause refused map[] 
ann admin /queues/{name}/pause /queues/mail/pause done map[] {"paused":true}
(unknown) nobody /login /login refused map[] 
ann nobody /login /login refused map[] 
 nobody /queues/{name}/unpause /queues/mail/unpause refused map[] `), "\n")
	if strings.TrimSpace(strings.Join(got, "\n")) != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	page := s.ask(s.h, http.MethodGet, "/audit", "", "Cookie", ann).Body.String()
	contains(t, "the page", page, "bot-operator", "refused", "The queue mail is paused, but nothing was ever pushed to it", `<a href="/queues/mail"><code>/queues/mail/pause</code></a>`, `<a href="/queues/a%2Fb%2Ejson">`)
	hasNot(t, "the page", page, "hunter2", "{name}/pause")
	filtered := s.ask(s.h, http.MethodGet, "/audit.json?user=ann&action=pause&outcome=refused", "", "Cookie", ann).Body.String()
	if n := strings.Count(filtered, `"user":`); n != 1 {
		t.Errorf("filtered: %d of them: %s", n, filtered)
	}
	for text, there := range map[string]bool{"IS+PAUSED": true, "reveal": true, "cancelled": false} { // of what was said, of the filter, and neither
		page := s.ask(s.h, http.MethodGet, "/audit?action="+text, "", "Cookie", ann).Body.String()
		if found := !strings.Contains(page, "Nobody has done that"); found != there {
			t.Errorf("an action like %q: %t, expected %t", text, found, there)
		}
	}
	if w := s.ask(s.h, http.MethodGet, "/audit", "", "Cookie", vera); w.Code != http.StatusForbidden {
		t.Errorf("for a viewer: %d", w.Code)
	}
}

// The audit has 10,000 entries of 90 days, and refusals of strangers push nothing out.
func TestAuditIsBounded(t *testing.T) {
	s := start(t)
	old, _ := json.Marshal(audit.Entry{At: time.Now().Add(-audit.Age - time.Hour), User: "old", Role: "admin"})
	pipe := s.rdb.Pipeline()
	for range audit.Most + 10 {
		pipe.RPush(t.Context(), keys.Audit, `{"at":"`+time.Now().UTC().Format(time.RFC3339)+`","user":"x","role":"admin"}`)
	}
	harness.Must(pipe.Exec(t.Context()))(t)
	s.post("/queues/q/pause", url.Values{}, "Accept", "application/json")
	harness.Equal(t, "entries", s.rdb.LLen(t.Context(), keys.Audit).Val(), audit.Most)
	if ttl := s.rdb.TTL(t.Context(), keys.Audit).Val(); ttl < audit.Age-time.Minute {
		t.Errorf("kept for %v", ttl)
	}
	contains(t, "the page", s.get("/audit"), "1–100 of 10,000", `href="/audit?from=100"`)
	contains(t, "the last page", s.get("/audit?from=9950"), "9,951–10,000 of 10,000")
	s.get("/audit?from=99999999")

	s.rdb.Del(t.Context(), keys.Audit)
	s.rdb.RPush(t.Context(), keys.Audit, old)
	hasNot(t, "the page", s.get("/audit"), ">old ")
	s.post("/queues/q/pause", url.Values{}, "Accept", "application/json")
	if all := s.audited(); len(all) != 1 || all[0].User != "ann" {
		t.Errorf("%+v", all)
	}
	s.post("/queues/q/pause", url.Values{}, "Role", "stranger")
	harness.Equal(t, "entries after a stranger's", s.rdb.LLen(t.Context(), keys.Audit).Val(), 1)
}

// An answer that only asks again is no action.
func TestAskedAgainIsNotAudited(t *testing.T) {
	s := start(t)
	seed(t, s.rdb, "retry", 200, "1795000000 + i", plainJob)
	for range 101 {
		s.rdb.LPush(t.Context(), "queue:q", "{}")
	}
	for path, form := range map[string]url.Values{"/queues/q/clear": {}, "/retries/all": {"do": {"kill"}, "count": {"200"}, "typed": {"20"}}} {
		_, text := s.post(path, form)
		contains(t, path, text, "Nothing was done: the number was not typed")
	}
	if all := s.audited(); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// Arguments are offered to be revealed where some are masked.
func TestRevealIsOfferedWhereItDoes(t *testing.T) {
	s := start(t)
	s.fixture()
	s.rdb.ZAdd(t.Context(), "schedule", z(1795000000, `{"class":"Plain","args":[1, "x"],"jid":"1"}`))
	for path, want := range map[string]bool{
		"/queues/a%2Fb%2Ejson": true, "/queues/a%2Fb%2Ejson?reveal=1": true, "/retries": true, "/jobs/1" + fixtureJID[1:]: true,
		"/": false, "/queues": false, "/processes": false, "/scheduled?class=Plain": false, "/audit": false,
	} {
		text := s.get(path)
		if has := strings.Contains(text, "Reveal arguments") || strings.Contains(text, "Mask arguments"); has != want {
			t.Errorf("%s: %v", path, has)
		}
	}
	hasNot(t, "an operator's", s.get("/retries", "Role", "operator"), "Reveal arguments")
}

const canary = "c4n4ry"

// sow puts jobs with secrets everywhere: queue, sets, a job that runs and one in progress.
func (s *site) sow(job string) {
	ctx := s.t.Context()
	for _, set := range []string{"retry", "schedule", "dead"} {
		s.rdb.ZAdd(ctx, set, redis.Z{Score: float64(time.Now().Unix()), Member: job})
	}
	s.rdb.SAdd(ctx, "queues", "a/b.json", "default")
	s.rdb.LPush(ctx, "queue:a/b.json", job)
	s.rdb.LPush(ctx, "queue:default", job)
	s.rdb.SAdd(ctx, "processes", "ruby:1:ab")
	s.rdb.HSet(ctx, "ruby:1:ab", "info", `{"hostname":"ruby","started_at":1.0,"pid":1,"tag":"","concurrency":1,"queues":["default"],"labels":[],"identity":"ruby:1:ab"}`,
		"busy", "1", "beat", fmt.Sprint(time.Now().Unix()), "quiet", "false")
	payload, _ := json.Marshal(job)
	s.rdb.HSet(ctx, "ruby:1:ab:work", "t1", fmt.Sprintf(`{"queue":"default","payload":%s,"run_at":%d}`, payload, time.Now().Unix()))
}

// No page and no JSON that a viewer or an operator can get has what is masked, asked to reveal or not: in
// each place of Redis where a job can be.
func TestNoRawArguments(t *testing.T) {
	job := `{"class":"Pay","queue":"a/b.json","jid":"` + strings.Repeat("b", 24) + `","created_at":1700000000.5,"enqueued_at":1700000000.5,"retry":true,"retry_count":1,"error_class":"E","error_message":"m",` +
		`"args":[%s]}`
	for name, c := range map[string]struct {
		set  func(*Options)
		args string
	}{
		"keys":      {func(*Options) {}, `{"password":"` + canary + `","deep":[{"api_key":"` + canary + `"}]}`},
		"more keys": {func(o *Options) { o.MaskKeys = []string{"patient"} }, `{"Patient-Id":"` + canary + `"}`},
		"positions": {func(o *Options) { o.MaskArgs = map[string][]int{"Pay": {2}} }, `1,"` + canary + `"`},
		"hide":      {func(o *Options) { o.Args = "hide" }, `"` + canary + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, c.set)
			s.fixture()
			s.sow(fmt.Sprintf(job, c.args))
			seen := 0
			for _, rt := range s.h.routes {
				if rt.method != http.MethodGet || rt.live != nil {
					continue
				}
				paths := []string{pages["GET "+rt.path].path, strings.ReplaceAll(pages["GET "+rt.path].path, "a%2Fb%2Ejson", "default")}
				for _, path := range slices.Compact(paths) {
					for _, ask := range []struct{ role, query, accept string }{
						{"viewer", "", "text/html"}, {"viewer", "?reveal=1", "application/json"},
						{"operator", "?reveal=1", "text/html"}, {"operator", "?args=show&q=" + canary[:3], "application/json"},
					} {
						if strings.Contains(path, "?") {
							ask.query = strings.Replace(ask.query, "?", "&", 1)
						}
						status, text, _ := s.do(http.MethodGet, path+ask.query, "", "Role", ask.role, "Accept", ask.accept)
						hasNot(t, "GET "+path+ask.query+" as "+ask.role, text, canary, "s3cr3t")
						if status == http.StatusOK {
							seen++
						}
					}
				}
			}
			if seen < 20 {
				t.Errorf("only %d pages were there", seen)
			}
			contains(t, "an admin's", s.get("/queues/a%2Fb%2Ejson?reveal=1"), canary)
		})
	}
}

// What Redis has is text, whatever it looks like, and addresses lead nowhere else.
func TestHostileContents(t *testing.T) {
	s := start(t)
	const evil = `<script>alert(1)</script>"' onload=x`
	text, _ := json.Marshal(map[string]any{
		"class": evil, "queue": evil, "jid": "a\"b'\n<i>c", "args": []any{evil}, "tags": []string{evil}, "error_class": evil, "error_message": evil,
		"retry": true, "retry_count": 1, "failed_at": 1700000000.5, "created_at": 1700000000.5, "enqueued_at": 1700000000.5,
	})
	s.fixture()
	s.sow(string(text))
	s.rdb.SAdd(t.Context(), "queues", evil)
	s.rdb.LPush(t.Context(), "queue:"+evil, text)
	s.limited(evil, "0 pinned 2", "", 1)
	s.limited(evil, "0 pinned 2", evil, 1)
	s.post("/queues/"+url.PathEscape(evil)+"/pause", url.Values{"back": {evil}, evil: {evil}})
	for _, rt := range s.h.routes {
		if rt.method != http.MethodGet || rt.live != nil {
			continue
		}
		paths := []string{pages["GET "+rt.path].path, strings.ReplaceAll(pages["GET "+rt.path].path, "a%2Fb%2Ejson", url.PathEscape(evil))}
		for _, path := range slices.Compact(paths) {
			for _, query := range []string{"", "?from=1&q=" + url.QueryEscape(evil) + "&user=" + url.QueryEscape(evil)} {
				_, page, answer := s.do(http.MethodGet, path+query, "")
				if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
					hasNot(t, path+query, page, "<script>alert", `"' onload=x`, "<i>c")
				} else if answer.Header.Get("X-Content-Type-Options") != "nosniff" {
					t.Errorf("%s is %s, and may be taken for HTML", path, answer.Header.Get("Content-Type"))
				}
			}
		}
	}
	// names with line breaks break out of no header
	w := s.ask(s.h, http.MethodPost, "/queues/"+url.PathEscape("x\r\nSet-Cookie: a=b")+"/pause", "", "Sec-Fetch-Site", "same-origin")
	if location := w.Header().Get("Location"); w.Code != http.StatusSeeOther || strings.ContainsAny(location, "\r\n") || !isLocal(location) {
		t.Errorf("%d to %q", w.Code, location)
	}
	for _, c := range w.Header().Values("Set-Cookie") {
		if strings.ContainsAny(c, "\r\n") || strings.HasPrefix(c, "a=b") {
			t.Errorf("cookie %q", c)
		}
	}
	// a path that looks like another host is none
	for _, path := range []string{"//evil.example/x", "///evil.example", "/%2f/evil.example", "//evil.example/queues"} {
		page := s.ask(s.h, http.MethodGet, path, "").Body.String()
		hasNot(t, path, page, `href="//`, `action="//`, `src="//`)
		page = s.ask(http.StripPrefix("/jobs", s.h), http.MethodGet, "/jobs"+path, "").Body.String()
		hasNot(t, "/jobs"+path, page, `href="//`, `action="//`, `src="//`)
	}
	for address, want := range map[string]bool{
		"/": true, "/queues?x=//y": true, "": false, "queues": false, "//evil.example": false, "/\\evil.example": false, "http://evil.example": false,
		"/\tx": false, "javascript:alert(1)": false, "/x\r\ny": false,
	} {
		if isLocal(address) != want {
			t.Errorf("%q: %v", address, !want)
		}
	}
	q := &request{Handler: s.h, base: "/jobs"}
	for next, want := range map[string]string{"/jobs/queues": "/jobs/queues", "/other": "/jobs/", "/jobsx": "/jobs/", "//jobs/": "/jobs/", "": "/jobs/"} {
		if got := q.here(next); got != want {
			t.Errorf("next %q: %q", next, got)
		}
	}
}

// What somebody has typed into a filter is masked for others as jobs are; who did what to how many stays.
func TestTypedSecretsAreMasked(t *testing.T) {
	log := &harness.Buffer{}
	s := start(t, func(o *Options) { o.Logger = zerolog.New(log) })
	seed(t, s.rdb, "dead", 2, "1795000000 + i", `'{"class":"Pay","args":["s3cr3t"],"jid":"j' .. i .. '","error_class":"E","error_message":"502 token=s3cr3t"}'`)
	first := s.ended(s.begin("/dead/all", url.Values{"do": {"delete"}, "q": {"s3cr3t"}, "count": {"1"}}))
	second := s.ended(s.begin("/dead/all", url.Values{"do": {"delete"}, "class": {"Pay"}, "error": {"token=s3cr3t"}, "count": {"1"}}))
	if first.Counts.Done != 1 || first.Filter != `text "[masked]"` || second.Counts.Done != 1 || second.Filter != `class "Pay", error "token=[masked]"` {
		t.Errorf("%+v and %+v", first, second)
	}
	s.h.Close()
	var got []string
	for _, e := range s.audited() {
		got = append(got, fmt.Sprint(e.Outcome, " ", e.Filter))
	}
	all := strings.Join(got, "\n")
	contains(t, "the audit", all, "done map[count:1 do:delete q:[masked]]", "done map[class:Pay count:1 do:delete error:token=[masked]]", "begun map[")
	hasNot(t, "the audit, the log", all+log.String(), "s3cr3t")
}
