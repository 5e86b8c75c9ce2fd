package web

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/redisconn"
	"github.com/troupehq/troupe/internal/rights"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/web/internal/limiter"
)

// The rule of the dashboard is enough for every page and for all that is done on one: Redis refuses
// nothing, of what goes on behind the pages either.
func TestTheRuleIsEnoughForAllPages(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		for _, signIn := range []bool{false, true} {
			t.Run(fmt.Sprintf("read-only %v, users %v", readOnly, signIn), func(t *testing.T) {
				server := redistest.Start(t)
				admin := redis.NewClient(&redis.Options{Addr: server.Addr})
				t.Cleanup(func() { _ = admin.Close() })
				args := []any{"ACL", "SETUSER", "u", "on", ">pw"}
				for _, r := range rights.Dashboard(!readOnly, signIn).Rule() {
					args = append(args, r)
				}
				harness.OK(t, admin.Do(t.Context(), args...).Err())
				s := &site{t: t, rdb: admin, url: strings.Replace(server.URL(0), "redis://", "redis://u:pw@", 1)}
				rdb, err := redisconn.FromURL(s.url, redisconn.Need{})
				harness.OK(t, err)
				t.Cleanup(func() { _ = rdb.Close() })
				o := Options{Redis: rdb, Authorize: byHeader, ReadOnly: readOnly}
				if signIn {
					o.Authorize, o.Users = nil, filepath.Join(t.TempDir(), "users")
					harness.OK(t, os.WriteFile(o.Users, []byte(userLine("ann", Admin, goodPassword)), 0o600))
				}
				if s.h, err = New(o); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.h.Close)
				s.h.actions, s.h.strangers, s.h.logIns = limiter.New(0, 0), limiter.New(0, 0), limiter.New(0, 0)
				s.h.looksApart = time.Millisecond
				s.h.sampler.audited = time.Now() // doctor asks what this user may, on purpose
				s.serve(s.h)
				refused := func(what string) {
					t.Helper()
					entries := harness.Must(admin.Do(t.Context(), "ACL", "LOG").Slice())(t)
					for _, e := range entries {
						e := e.(map[any]any)
						t.Errorf("%s: redis has refused %v %v", what, e["reason"], e["object"])
					}
					admin.Do(t.Context(), "ACL", "LOG", "RESET")
				}
				// s.fixture is written by the admin, but for the task.
				s.fixture()
				logIn := func() {
					t.Helper()
					if status, text := s.post("/login", url.Values{"name": {"ann"}, "password": {goodPassword}}); signIn && status != http.StatusOK {
						t.Fatalf("signing in: %d\n%s", status, text)
					}
				}
				logIn()
				refused("the start")
				for _, rt := range s.h.routes {
					p := pages[rt.method+" "+rt.path]
					status, text, _ := s.do(rt.method, p.path, p.form.Encode())
					if (status != http.StatusOK && !strings.Contains(rt.path, "log") && rt.path != "/live") || strings.Contains(text, "Redis refuses") {
						t.Errorf("%s %s: %d\n%s", rt.method, p.path, status, text)
					}
					if rt.session {
						logIn()
					}
					refused(rt.method + " " + p.path)
				}
				if readOnly {
					return
				}
				s.doAll(refused)
			})
		}
	}
}

// first is the key of the first job of a page, which may know of it a moment late.
func (s *site) first(path string) (key string) {
	s.t.Helper()
	harness.Await(s.t, "a job on "+path, func() bool {
		jobs := s.list(path).Data.Jobs
		if len(jobs) > 0 {
			key = jobs[0].Key
		}
		return key != ""
	})
	return key
}

// doAll does what can be done to what is there: the forms of the table of pages name nothing that is.
func (s *site) doAll(after func(what string)) {
	s.t.Helper()
	do := func(path string, form url.Values, want string) {
		s.t.Helper()
		status, text := s.post(path, form, "Accept", "application/json")
		if status != http.StatusOK || !strings.Contains(text, want) {
			s.t.Errorf("POST %s %v: %d, expected %q\n%s", path, form, status, want, text)
		}
		after(fmt.Sprint("POST ", path, " ", form))
	}
	for path, actions := range map[string][]string{"/retries": {"retry", "kill", "delete", "reschedule"}, "/scheduled": {"retry", "delete", "reschedule"}, "/dead": {"retry", "delete"}} {
		set := map[string]string{"/retries": "retry", "/scheduled": "schedule", "/dead": "dead"}[path]
		for _, action := range actions {
			for _, one := range []bool{true, false} {
				s.rdb.Del(s.t.Context(), set)
				seed(s.t, s.rdb, set, 1, fmt.Sprint(time.Now().Add(time.Hour).Unix()), plainJob)
				form := url.Values{"do": {action}, "at": {"2h"}}
				if one {
					form.Set("key", s.first(path))
					do(path+"/ticked", form, `"done":1`)
					continue
				}
				form.Set("count", "1")
				s.ended(s.begin(path+"/all", form)) // else it acts on the job of the next round
				after(fmt.Sprint("POST ", path, "/all ", form))
			}
		}
	}
	queue, clock := "/queues/a%2Fb%2Ejson", "/periodic/a%2Fb%2Ejson"
	s.fixture()
	limit := "?limit=a%2Fb%2Ejson"
	do("/limits/release"+limit, url.Values{"n": {"2"}, "reason": {"x"}}, `"done":2`)
	do("/limits/rest"+limit, url.Values{"for": {"1m"}, "reason": {"x"}}, `"done":1`)
	do("/limits/rest"+limit+"&for=0", url.Values{"reason": {"x"}}, `"done":1`)
	for _, action := range []string{"release", "kill", "delete"} {
		s.limited("many", "1", "", 2)
		do("/limits/held/ticked?limit=many", url.Values{"do": {action}, "key": {s.first("/limits/held?limit=many")}}, `"done":1`)
		s.ended(s.begin("/limits/held/all?limit=many", url.Values{"do": {action}, "count": {"1"}}))
	}
	do("/limits/set"+limit, url.Values{"to": {"10/m"}, "reason": {"x"}}, `"done":1`)
	do("/limits/reset"+limit, url.Values{"reason": {"x"}}, `"done":1`)
	s.limited("gone", "2 pinned ", "", 1)
	do("/limits/reset?limit=gone", url.Values{"reason": {"x"}}, `"done":1`)
	do(clock+"/disable", nil, `"disabled":true`)
	do(clock+"/enable", nil, `"disabled":false`)
	do(clock+"/push", nil, `"jid"`)
	do(clock+"/delete", url.Values{"count": {"1"}}, `"done":1`)
	do(queue+"/delete", url.Values{"key": {s.first(queue)}}, "")
	do(queue+"/ticked", url.Values{"do": {"move"}, "into": {"other"}, "key": {s.first(queue)}}, `"done":1`)
	do("/queues/other/ticked", url.Values{"do": {"kill"}, "key": {s.first("/queues/other")}}, `"done":1`)
	do(queue+"/all", url.Values{"do": {"move"}, "into": {"other"}, "count": {"1"}}, "")
	do(queue+"/pause", nil, "")
	do(queue+"/unpause", nil, "")
	do(queue+"/clear", url.Values{"count": {"3"}}, "")
	// nobody lives who would put back the jobs of the dead
	s.rdb.Del(s.t.Context(), "troupe:lease:web-1:9:abc#default.1", "processes", fixed)
	again, err := New(s.h.options) // which has not seen those that lived
	harness.OK(s.t, err)
	s.t.Cleanup(again.Close)
	again.sampler.audited = time.Now()
	s.serve(again)
	if s.h.options.Users != "" {
		do("/login", url.Values{"name": {"ann"}, "password": {goodPassword}}, "")
	}
	if _, text := s.post("/orphans/rescue", nil); !strings.Contains(text, "Redis refuses this: its user may not do this") {
		s.t.Errorf("putting jobs back, which takes the rule of the daemon:\n%s", text)
	}
}
