package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/bulk"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
)

// What the table of pages names.
const fixtureJID, fixtureTask, fixtureBatch = "0123456789abcdef01234567", "thetask", "thebatch"

// fixtureLock names the lock that the retry holds.
const fixtureLock = "lock=troupe:lock:0f1e2d3c&holder=" + fixtureJID

// fixture fills the database for the table of pages.
func (s *site) fixture() {
	c := client.New(s.rdb)
	for i, set := range []string{"retry", "schedule", "dead"} {
		job := fmt.Sprintf(`{"class":"Billing::Charge","queue":"a/b.json","args":[{"token":"s3cr3t"}],"jid":"%s","retry":true,"retry_count":%d,"error_class":"E","error_message":"it failed","created_at":1795000000}`, strings.Replace(fixtureJID, "0", strconv.Itoa(i), 1), i)
		s.rdb.ZAdd(s.t.Context(), set, redis.Z{Score: 1795000000 + float64(i), Member: job})
	}
	s.task()
	for range 3 {
		harness.Must(c.PushClass(s.t.Context(), "Billing::Charge", []any{json.Number("12345678901234567890"), map[string]any{"token": "s3cr3t"}}, client.Queue("a/b.json")))(s.t)
	}
	harness.OK(s.t, inspect.New(s.rdb).SavePeriodic(s.t.Context(), troupe.Periodic{Name: "a/b.json", Cron: "0 4 * * *", Class: "Billing::Charge", Args: []any{map[string]any{"token": "s3cr3t"}}, Queue: "a/b.json"}))
	harness.OK(s.t, s.rdb.Set(s.t.Context(), "troupe:lock:0f1e2d3c", fixtureJID, 0).Err())
	s.limited("a/b.json", "0 pinned 2 breaker 3 60", "", 2)
	s.limited("a/b.json", "0 pinned 2 breaker 3 60", "key", 1)
	s.batched(fixtureBatch, 2)
	s.fleetFixture()
}

// batched is an open batch that waits for so many jobs: one is to be run, the others are nowhere.
func (s *site) batched(id string, n int) {
	ctx := s.t.Context()
	harness.OK(s.t, s.rdb.HSet(ctx, keys.Batch(id), "total", n, "pending", n, "unrun", n, "name", "import <b> token=s3cr3t", "made", 1795000000, "last", 1795000001, "due", 0,
		"to:success", "a/b.json", "on:success", `{"class":"After","args":[{"token":"s3cr3t"}],"queue":"a/b.json","jid":"callback1"`).Err())
	harness.OK(s.t, s.rdb.ZAdd(ctx, keys.Batches, redis.Z{Score: 4102444800, Member: id}).Err())
	harness.OK(s.t, s.rdb.ZAdd(ctx, "schedule", redis.Z{Score: 4102444800, Member: `{"class":"Billing::Charge","queue":"a/b.json","args":[{"token":"s3cr3t"}],"jid":"in` + id + `","created_at":1795000000,"t_batch":"` + id + `:0"}`}).Err())
}

// limited defines a limit, one of whose rules has given a slot and holds so many jobs.
func (s *site) limited(name, text, key string, held int) {
	s.t.Helper()
	ctx, rule := s.t.Context(), name
	if key != "" {
		rule += ":" + key
	}
	harness.OK(s.t, s.rdb.HSet(ctx, keys.Limits("troupe:"), name, text).Err())
	harness.OK(s.t, s.rdb.ZAdd(ctx, keys.Slots("troupe:", rule), redis.Z{Score: 4e9, Member: "runs-" + name}).Err())
	harness.OK(s.t, s.rdb.ZAdd(ctx, keys.HeldRules("troupe:"), redis.Z{Score: 4e9, Member: rule}).Err())
	for i := range held {
		jid := fmt.Sprintf("held%d", i)
		header := harness.Must(json.Marshal([]string{"queue:a/b.json", "", jid, rule}))(s.t)
		job := fmt.Sprintf(`{"class":"Charge","queue":"a/b.json","args":[%d,{"token":"s3cr3t"}],"jid":%q,"created_at":1795000000}`, i, jid)
		harness.OK(s.t, s.rdb.ZAdd(ctx, keys.Held("troupe:", rule), redis.Z{Score: 1795000000 + float64(i), Member: "1795000000000000.1 " + string(header) + "\n" + job}).Err())
	}
}

// task is the task that the table of pages names.
func (s *site) task() {
	ended := make(chan struct{})
	harness.OK(s.t, s.h.tasks.Start(bulk.Task{Action: bulk.Actions[0], Entries: []bulk.Entry{}}, bulk.Progress{ID: fixtureTask, Set: "dead"}, func(bulk.Progress, error) { close(ended) }))
	<-ended
}

// pages are one address for each route of the table, for the fixture.
var pages = map[string]struct {
	path string
	form url.Values // of a POST that works for an admin
}{
	"GET /":                         {path: "/"},
	"GET /queues":                   {path: "/queues"},
	"GET /queues/{name}":            {path: "/queues/a%2Fb%2Ejson"},
	"POST /queues/{name}/pause":     {path: "/queues/a%2Fb%2Ejson/pause"},
	"POST /queues/{name}/unpause":   {path: "/queues/a%2Fb%2Ejson/unpause"},
	"POST /queues/{name}/delete":    {path: "/queues/a%2Fb%2Ejson/delete", form: url.Values{"key": {"1~0~x"}}},
	"GET /queues/{name}/export":     {path: "/queues/a%2Fb%2Ejson/export"},
	"POST /queues/{name}/ticked":    {path: "/queues/a%2Fb%2Ejson/ticked", form: url.Values{"do": {"move"}, "into": {"other"}, "key": {"1~0~x"}}},
	"GET /queues/{name}/all":        {path: "/queues/a%2Fb%2Ejson/all?do=move"},
	"POST /queues/{name}/all":       {path: "/queues/a%2Fb%2Ejson/all", form: url.Values{"do": {"kill"}, "count": {"1"}}},
	"GET /queues/{name}/clear":      {path: "/queues/a%2Fb%2Ejson/clear"},
	"POST /queues/{name}/clear":     {path: "/queues/a%2Fb%2Ejson/clear"},
	"GET /running":                  {path: "/running"},
	"GET /jobs/{jid}":               {path: "/jobs/" + fixtureJID},
	"POST /jobs/{jid}/cancel":       {path: "/jobs/" + fixtureJID + "/cancel"},
	"GET /retries":                  {path: "/retries?class=Billing::Charge"},
	"GET /retries/export":           {path: "/retries/export"},
	"POST /retries/ticked":          {path: "/retries/ticked", form: url.Values{"do": {"kill"}, "key": {"1~0~x"}}},
	"GET /retries/all":              {path: "/retries/all?do=kill"},
	"POST /retries/all":             {path: "/retries/all", form: url.Values{"do": {"kill"}, "count": {"1"}}},
	"GET /scheduled":                {path: "/scheduled"},
	"GET /scheduled/export":         {path: "/scheduled/export"},
	"POST /scheduled/ticked":        {path: "/scheduled/ticked", form: url.Values{"do": {"retry"}, "key": {"1~0~x"}}},
	"GET /scheduled/all":            {path: "/scheduled/all"},
	"POST /scheduled/all":           {path: "/scheduled/all", form: url.Values{"do": {"reschedule"}, "at": {"2h"}, "count": {"1"}}},
	"GET /dead":                     {path: "/dead"},
	"GET /dead/export":              {path: "/dead/export"},
	"POST /dead/ticked":             {path: "/dead/ticked", form: url.Values{"do": {"delete"}, "key": {"1~0~x"}}},
	"GET /dead/all":                 {path: "/dead/all?do=delete"},
	"POST /dead/all":                {path: "/dead/all", form: url.Values{"do": {"delete"}, "count": {"1"}}},
	"GET /periodic":                 {path: "/periodic"},
	"GET /periodic/{name}":          {path: "/periodic/a%2Fb%2Ejson?namespace=default"},
	"POST /periodic/{name}/enable":  {path: "/periodic/a%2Fb%2Ejson/enable"},
	"POST /periodic/{name}/disable": {path: "/periodic/a%2Fb%2Ejson/disable"},
	"POST /periodic/{name}/push":    {path: "/periodic/a%2Fb%2Ejson/push"},
	"GET /periodic/{name}/delete":   {path: "/periodic/a%2Fb%2Ejson/delete"},
	"POST /periodic/{name}/delete":  {path: "/periodic/a%2Fb%2Ejson/delete", form: url.Values{"count": {"1"}}},
	"GET /locks":                    {path: "/locks"},
	"GET /locks/free":               {path: "/locks/free?" + fixtureLock},
	"POST /locks/free":              {path: "/locks/free?" + fixtureLock, form: url.Values{"count": {"1"}, "reason": {"it is in the way"}}},
	"GET /limits":                   {path: "/limits"},
	"GET /limits/held":              {path: "/limits/held?limit=a%2Fb%2Ejson"},
	"POST /limits/held/ticked":      {path: "/limits/held/ticked?limit=a%2Fb%2Ejson", form: url.Values{"do": {"release"}, "key": {"1~0~x"}}},
	"GET /limits/held/all":          {path: "/limits/held/all?limit=a%2Fb%2Ejson&do=kill"},
	"POST /limits/held/all":         {path: "/limits/held/all?limit=a%2Fb%2Ejson", form: url.Values{"do": {"release"}, "count": {"1"}}},
	"GET /limits/rest":              {path: "/limits/rest?limit=a%2Fb%2Ejson"},
	"POST /limits/rest":             {path: "/limits/rest?limit=a%2Fb%2Ejson", form: url.Values{"for": {"1m"}, "reason": {"it is down"}}},
	"GET /limits/release":           {path: "/limits/release?limit=a%2Fb%2Ejson"},
	"POST /limits/release":          {path: "/limits/release?limit=a%2Fb%2Ejson", form: url.Values{"n": {"1"}, "reason": {"it is late"}}},
	"GET /limits/set":               {path: "/limits/set?limit=a%2Fb%2Ejson"},
	"POST /limits/set":              {path: "/limits/set?limit=a%2Fb%2Ejson", form: url.Values{"to": {"7"}, "reason": {"the API is faster"}}},
	"GET /limits/reset":             {path: "/limits/reset?limit=a%2Fb%2Ejson"},
	"POST /limits/reset":            {path: "/limits/reset?limit=a%2Fb%2Ejson", form: url.Values{"reason": {"it is slow again"}}},
	"GET /batches":                  {path: "/batches?only=stuck"},
	"GET /batches/{id}":             {path: "/batches/" + fixtureBatch},
	"GET /batches/{id}/close":       {path: "/batches/" + fixtureBatch + "/close"},
	"POST /batches/{id}/close":      {path: "/batches/" + fixtureBatch + "/close", form: url.Values{"count": {"1"}, "reason": {"its program is gone"}}},
	"GET /batches/{id}/cancel":      {path: "/batches/" + fixtureBatch + "/cancel"},
	"POST /batches/{id}/cancel":     {path: "/batches/" + fixtureBatch + "/cancel", form: url.Values{"count": {"1"}, "reason": {"it is wrong"}}},
	"GET /batches/{id}/count-out":   {path: "/batches/" + fixtureBatch + "/count-out"},
	"POST /batches/{id}/count-out":  {path: "/batches/" + fixtureBatch + "/count-out", form: url.Values{"count": {"1"}, "reason": {"Ruby has run it"}}},
	"GET /search":                   {path: "/search?q=billing"},
	"GET /tasks":                    {path: "/tasks"},
	"GET /tasks/{id}":               {path: "/tasks/" + fixtureTask},
	"POST /tasks/{id}/cancel":       {path: "/tasks/" + fixtureTask + "/cancel"},
	"GET /audit":                    {path: "/audit"},
	"GET /login":                    {path: "/login"},
	"POST /login":                   {path: "/login", form: url.Values{"name": {"ann"}, "password": {"wrong"}}},
	"POST /logout":                  {path: "/logout"},
	"GET /live":                     {path: "/live?topic=none"},
}

// Each route answers who may use it, and nobody else; with --read-only those that change
// something are not there.
func TestRoles(t *testing.T) {
	s := start(t)
	closed := start(t, func(o *Options) { o.ReadOnly = true })
	s.fixture()
	closed.fixture()
	roles := map[string]Role{"nobody": 0, "viewer": Viewer, "operator": Operator, "": Admin}
	for _, rt := range allRoutes {
		name := rt.method + " " + rt.path
		p, ok := pages[name]
		if !ok {
			t.Errorf("%s is not in the table of pages", name)
			continue
		}
		if rt.session { // there are no users
			if status, _, _ := s.do(rt.method, p.path, ""); status != http.StatusNotFound {
				t.Errorf("%s without users: %d", name, status)
			}
			continue
		}
		for header, role := range roles {
			want := http.StatusOK
			switch {
			case role < rt.role:
				want = http.StatusForbidden
			case rt.path == "/live":
				want = http.StatusBadRequest
			}
			if status, text, _ := s.do(rt.method, p.path, p.form.Encode(), "Role", header); status != want {
				t.Errorf("%s as %s: %d, expected %d\n%s", name, role, status, want, text)
			}
		}
		if status, _, _ := s.do(rt.method, p.path, p.form.Encode(), "Role", "stranger"); status != http.StatusUnauthorized {
			t.Errorf("%s as a stranger: %d", name, status)
		}
		if status, _, _ := closed.do(rt.method, p.path, p.form.Encode()); rt.changes() && status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			t.Errorf("%s read-only: %d", name, status)
		}
	}
	if closed.rdb.LLen(t.Context(), "queue:a/b.json").Val() != 3 || closed.rdb.Exists(t.Context(), "paused").Val() != 0 {
		t.Error("something was changed read-only")
	}
}

// Each page has a JSON twin, by its address and by the header.
func TestJSON(t *testing.T) {
	s := start(t)
	s.fixture()
	for name, p := range pages {
		if !strings.HasPrefix(name, "GET ") || name == "GET /live" || name == "GET /login" || strings.HasSuffix(name, "/export") {
			continue
		}
		html := s.get(p.path)
		if !strings.HasPrefix(html, "<!DOCTYPE") { // it is JSON alone
			continue
		}
		link := regexp.MustCompile(`href="([^"]*)">JSON<`).FindStringSubmatch(html)
		if link == nil {
			t.Errorf("%s links no twin", name)
			continue
		}
		// ages and rates go on between the two
		still := regexp.MustCompile(`"(latency_s|why|at|from|to|rtt_ns|detail|[a-z_]*_per_s|memory_bytes|clients|uptime_s|points|problems)":("[^"]*"|\[[^\]]*\]|[-0-9.e]+|null)`)
		byPath := still.ReplaceAllString(string(s.data(strings.ReplaceAll(link[1], "&amp;", "&"))), "")
		byHeader := still.ReplaceAllString(string(s.data(p.path, "Accept", "application/json")), "")
		if byPath != byHeader || len(byPath) < 3 {
			t.Errorf("%s: %s\nand %s", name, byPath, byHeader)
		}
	}
	queue := string(s.data("/queues/a%2Fb%2Ejson.json"))
	contains(t, "the queue", queue, `"name":"a/b.json"`, `"waiting":3`, `"args":[12345678901234567890,{"token":"[masked]"}]`)
	hasNot(t, "the queue", queue, "s3cr3t")
	contains(t, "revealed", string(s.data("/queues/a%2Fb%2Ejson.json?reveal=1")), "s3cr3t")
	hasNot(t, "a viewer's", s.get("/queues/a%2Fb%2Ejson?reveal=1", "Role", "viewer"), "s3cr3t", "Reveal")
}

// Wherever the dashboard is mounted, each link of each page leads to a page of it.
func TestLinks(t *testing.T) {
	for name, mount := range map[string]func(o *Options) func(http.Handler) http.Handler{
		"root": func(*Options) func(http.Handler) http.Handler {
			return func(h http.Handler) http.Handler { return h }
		},
		"prefix stripped by the program": func(*Options) func(http.Handler) http.Handler {
			return func(h http.Handler) http.Handler { return http.StripPrefix("/a/jobs", h) }
		},
		"prefix kept": func(o *Options) func(http.Handler) http.Handler {
			o.BasePath = "/a/jobs/"
			return func(h http.Handler) http.Handler { return h }
		},
		"prefix stripped by a proxy": func(o *Options) func(http.Handler) http.Handler {
			o.BasePath = "/a/jobs"
			return func(h http.Handler) http.Handler { // the proxy
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					r2 := r.Clone(r.Context())
					r2.RequestURI = strings.TrimPrefix(r.RequestURI, "/a/jobs")
					r2.URL, _ = url.Parse(r2.RequestURI)
					h.ServeHTTP(w, r2)
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var wrap func(http.Handler) http.Handler
			s := start(t, func(o *Options) { wrap = mount(o) })
			s.fixture()
			prefix := "/a/jobs"
			if name == "root" {
				prefix = ""
			}
			s.serve(wrap(s.h))
			if status, text := s.post(prefix+"/queues/a%2Fb%2Ejson/pause", url.Values{}); status != http.StatusOK || !strings.Contains(text, "is paused: within seconds") {
				t.Errorf("after an action: %d\n%s", status, text)
			}
			seen := map[string]bool{}
			for todo := []string{prefix + "/"}; len(todo) > 0; todo = todo[1:] {
				path, _, _ := strings.Cut(strings.ReplaceAll(todo[0], "&amp;", "&"), "#")
				if path == "" || seen[path] {
					continue
				}
				seen[path] = true
				if !strings.HasPrefix(path, prefix+"/") {
					t.Errorf("the link %s leads out of %s", path, prefix)
					continue
				}
				text := s.get(path)
				if strings.HasPrefix(text, "<!DOCTYPE") {
					for _, m := range regexp.MustCompile(`(?:href|src|action|data-live)="([^"]*)"`).FindAllStringSubmatch(text, -1) {
						if !strings.Contains(m[0], "action") && !strings.Contains(m[0], "data-live") {
							todo = append(todo, m[1])
						} else if !strings.HasPrefix(m[1], prefix+"/") {
							t.Errorf("%s leads out of %s", m[0], prefix)
						}
					}
				}
			}
			if len(seen) < 8 {
				t.Errorf("only %d links: %v", len(seen), seen)
			}
		})
	}
}
