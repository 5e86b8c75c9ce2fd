package web

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const planted = "CANARY7f3a"

// plant puts jobs with secrets everywhere.
func (s *site) plant() {
	const fields = `,"queue":"mail","retry":true,"retry_count":1,"tags":["a","token=` + planted + `"],"cattr":{"user":1,"password":"` + planted + `"},"api_key":"` + planted +
		`","note":"secret: ` + planted + `","error_class":"Net::Error","error_message":"GET https://x/?api_key=` + planted + `","error_backtrace":["a.rb:1","password=` + planted + `"]`
	jobs := map[string]string{
		"plain":     `{"class":"Pay","args":[{"password":"` + planted + `"},"` + planted + `"]`,
		"wrapped":   `{"class":"ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper","wrapped":"Cleanup","args":[{"job_class":"Cleanup","arguments":["` + planted + `",{"token":"` + planted + `"}]}]`,
		"encrypted": `{"class":"Sealed","encrypt":true,"args":[1,"` + planted + `"]`,
	}
	do := func(args ...any) {
		s.t.Helper()
		if err := s.rdb.Do(s.t.Context(), args...).Err(); err != nil {
			s.t.Fatal(args, err)
		}
	}
	now := time.Now()
	do("SADD", "queues", "mail")
	do("SADD", "processes", "h:1:a", "h:2:b")
	do("HSET", "h:1:a", "info", `{"hostname":"h","pid":1,"concurrency":2,"queues":["mail"],"identity":"h:1:a"}`, "busy", 1, "beat", now.Unix(), "quiet", "false")
	do("HSET", "h:2:b", "info", `{"hostname":"h","pid":2,"concurrency":2,"queues":["mail"],"identity":"h:2:b","version":"troupe"}`, "busy", 0, "beat", now.Unix(), "quiet", "false")
	failure := "launcher/default/processor-0: panic: token=" + planted
	do("SET", "troupe:pulse:h:2:b", `{"at":`+now.Format("20060102150405")+`,"version":"0.1","phase":"running","capsules":[{"name":"default","idle":2}],"restarts":9,"restarts_1m":9,"failure":"`+failure+`"}`)
	do("ZADD", "troupe:pulses", now.Unix(), "h:2:b")
	do("SET", "troupe:tree:h:2:b", `[{"path":"launcher/default","role":"manager","capsule":"default","state":"restarting","restarts":9,"last_failure":"panic: token=`+planted+`\ngoroutine 1","depth":0,"for_ns":5,`+
		`"unresponsive":[{"jid":"run-plain","class":"Pay","queue":"mail","started":"2026-11-21T00:00:00Z","since":"2026-11-21T00:00:00Z","cause":"password: `+planted+`","stack":"goroutine 1"}]}]`)
	for i, kind := range []string{"job failed", "actor crashed", "actor restarted", "actor escalated"} {
		do("RPUSH", "troupe:flight:h:2:b", `{"at":"`+now.Add(time.Duration(i)*time.Millisecond).UTC().Format(time.RFC3339Nano)+`","kind":"`+kind+`","jid":"retry-plain","class":"Pay","queue":"mail","actor":"launcher/default","text":"password=`+planted+`"}`)
	}
	do("ZADD", "troupe:flights", now.Unix(), "h:2:b")
	for kind, job := range jobs {
		as := func(place string) string { return job + `,"jid":"` + place + "-" + kind + `"` + fields + "}" }
		do("LPUSH", "queue:mail", as("queue"))
		do("ZADD", "retry", now.Unix()+60, as("retry"))
		do("ZADD", "schedule", now.Unix()+60, as("schedule"))
		do("ZADD", "dead", now.Unix(), as("dead"))
		work := as("run")
		do("HSET", "h:1:a:work", kind, `{"queue":"mail","payload":`+quoted(work)+`,"run_at":`+now.Format("20060102")+`}`)
	}
	do("ZADD", "dead", now.Unix(), `{"password":"`+planted)
	do("SADD", "cron_jobs:default", "cron_job:default:mail")
	do("HSET", "cron_job:default:mail", "name", "mail", "klass", "Pay", "cron", "token="+planted, "status", "enabled", "description", "password: "+planted,
		"args", `[{"password":"`+planted+`"},"`+planted+`"]`, "message", `{"class":"Pay","queue":"mail","args":[]}`)
	do("HSET", "it-run-plain", "c", `{"token":"`+planted+`"}`)
}

func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// No secret is on any page, in its twin or in an export, for any role; an admin sees it who reveals.
func TestCanary(t *testing.T) {
	set, tokens := withUsers(t)
	s := start(t, set, func(o *Options) { o.MaskArgs = map[string][]int{"Pay": {2}, "Cleanup": {1}} })
	s.plant()
	var paths []string
	for _, rt := range s.h.routes {
		if rt.method != http.MethodGet || rt.path == "/live" {
			continue
		}
		paths = append(paths, strings.NewReplacer("{name}", "mail", "{id}", "h:2:b", "{class}", "Pay", "{jid}", "run-plain").Replace(rt.path))
	}
	for _, place := range []string{"run", "queue", "retry", "schedule", "dead"} {
		for _, kind := range []string{"plain", "wrapped", "encrypted"} {
			paths = append(paths, "/jobs/"+place+"-"+kind)
		}
	}
	paths = append(paths, "/search?q=Pay", "/queues/mail?class=Pay", "/queues/mail/all?do=move&error=api_key", "/dead/all?do=delete", "/retries?error=api_key", "/events?kind=job")
	seen := 0
	for _, role := range []string{"viewer", "operator", "admin"} {
		for _, path := range paths {
			for _, accept := range []string{"text/html", "application/json"} {
				w := s.ask(s.h, http.MethodGet, path, "", "Authorization", "Bearer "+tokens[role], "Accept", accept)
				if w.Code == http.StatusOK {
					seen++
				} else if w.Code >= 500 {
					t.Errorf("%s %s: %d %s", role, path, w.Code, w.Body)
				}
				if i := strings.Index(w.Body.String(), planted); i >= 0 {
					t.Errorf("%s, %s as %s: …%s…", role, path, accept, w.Body.String()[max(0, i-200):i+20])
				}
			}
		}
		if role != "admin" { // nor is it found by a search
			w := s.ask(s.h, http.MethodGet, "/retries?error="+planted, "", "Authorization", "Bearer "+tokens[role], "Accept", "application/json")
			hasNot(t, role+"'s search", w.Body.String(), `"jid"`)
		}
		revealed := s.ask(s.h, http.MethodGet, "/jobs/dead-wrapped?reveal=1", "", "Authorization", "Bearer "+tokens[role]).Body.String()
		if strings.Contains(revealed, planted) != (role == "admin") {
			t.Errorf("%s: revealed %v", role, role != "admin")
		}
	}
	if seen < 150 {
		t.Errorf("%d pages were seen", seen)
	}
	w := s.ask(s.h, http.MethodGet, "/audit", "", "Authorization", "Bearer "+tokens["admin"])
	hasNot(t, "the audit", w.Body.String(), planted)
}
