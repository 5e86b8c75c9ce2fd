package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/web/internal/limiter"
	"github.com/troupehq/troupe/web/internal/users"
)

const goodPassword = "correct horse"

// userLine is that of somebody with goodPassword, or another one.
func userLine(name string, role Role, text string) string {
	line, err := users.UserLine(name, role.String(), text, users.LeastIterations)
	if err != nil {
		panic(err)
	}
	return line + "\n"
}

// withUsers writes a users file: vera, otto and ann, and three tokens.
func withUsers(t *testing.T, more ...string) (set func(*Options), tokens map[string]string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# users\n\n" + userLine("vera", Viewer, goodPassword) + userLine("otto", Operator, goodPassword) + userLine("ann", Admin, goodPassword))
	tokens = map[string]string{}
	for name, end := range map[string]time.Time{"viewer": {}, "operator": time.Now().Add(time.Hour), "admin": {}, "expired": time.Now().Add(-time.Minute)} {
		role, err := ParseRole(name)
		if err != nil {
			role = Admin
		}
		line, token, err := TokenLine("bot-"+name, role, end)
		harness.OK(t, err)
		tokens[name] = token
		b.WriteString(line + "\n")
	}
	path := filepath.Join(t.TempDir(), "users")
	harness.OK(t, os.WriteFile(path, []byte(b.String()+strings.Join(more, "")), 0o600))
	return func(o *Options) { o.Authorize, o.Users = nil, path }, tokens
}

// signIn makes a session without the form, which takes only so many.
func (s *site) signIn(name string, until time.Duration) (cookie string) {
	s.t.Helper()
	id := rand.Text()
	s.keep(id, name, until)
	return id
}

func (s *site) keep(id, name string, until time.Duration) {
	s.t.Helper()
	a := s.h.users.Person(name)
	text, _ := json.Marshal(session{User: name, Mark: a.Mark, Until: time.Now().Add(until).Unix()})
	harness.OK(s.t, s.rdb.Set(s.t.Context(), keys.WebSession(users.Digest(id)), text, time.Hour).Err())
}

// ask sends a request past the network, with headers by turns; Host and From are no headers.
func (s *site) ask(h http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	ctx, stop := context.WithTimeout(s.t.Context(), time.Minute)
	defer stop()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	r.Host = "localhost"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		switch headers[i] {
		case "Host":
			r.Host = headers[i+1]
		case "From":
			r.RemoteAddr = headers[i+1]
		default:
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Who asks × each route × GET and POST × where the request comes from × where the dashboard is. All
// is derived from the table of routes.
func TestMatrix(t *testing.T) {
	set, tokens := withUsers(t)
	s := start(t, set, func(o *Options) { o.TrustProxies = []string{"10.1.0.0/16"} })
	s.fixture()
	vera, otto, ann := s.signIn("vera", time.Hour), s.signIn("otto", time.Hour), s.signIn("ann", time.Hour)
	sessions := map[string]string{vera: "vera", otto: "otto", ann: "ann"}
	people := map[string]struct {
		role    Role
		headers []string
		token   bool
	}{
		"none":                  {},
		"viewer":                {role: Viewer, headers: []string{"Cookie", "troupe=" + vera}},
		"operator":              {role: Operator, headers: []string{"Cookie", "troupe=" + otto}},
		"admin":                 {role: Admin, headers: []string{"Cookie", "troupe=" + ann}},
		"bad":                   {headers: []string{"Cookie", "troupe=" + rand.Text()}},
		"expired":               {headers: []string{"Cookie", "troupe=" + s.signIn("ann", -time.Minute)}},
		"viewer token":          {role: Viewer, headers: []string{"Authorization", "Bearer " + tokens["viewer"]}, token: true},
		"operator token":        {role: Operator, headers: []string{"Authorization", "bearer " + tokens["operator"]}, token: true},
		"admin token":           {role: Admin, headers: []string{"Authorization", "Bearer " + tokens["admin"]}, token: true},
		"bad token":             {headers: []string{"Authorization", "Bearer x" + tokens["admin"]}},
		"expired token":         {headers: []string{"Authorization", "Bearer " + tokens["expired"]}},
		"bad token of a person": {headers: []string{"Authorization", "Bearer x", "Cookie", "troupe=" + ann}},
	}
	origins := map[string]struct {
		headers []string
		ours    bool
	}{
		"same-origin":        {[]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://localhost"}, true},
		"typed":              {[]string{"Sec-Fetch-Site", "none"}, true},
		"old browser, same":  {[]string{"Origin", "http://localhost"}, true},
		"same-site":          {[]string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:81"}, false},
		"cross-site":         {[]string{"Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example"}, false},
		"old browser, other": {[]string{"Origin", "http://evil.example"}, false},
		"null":               {[]string{"Origin", "null"}, false},
		"none":               {nil, false}, // with a cookie
		"proxied": {[]string{"From", "10.1.2.3:4", "Host", "inner", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https",
			"X-Forwarded-Host", "jobs.example", "Origin", "https://jobs.example"}, true},
		"proxied by nobody": {[]string{"Host", "inner", "X-Forwarded-Host", "jobs.example", "Origin", "https://jobs.example"}, false},
	}
	methods := map[string]map[string]bool{} // by path
	for _, rt := range s.h.routes {
		if methods[rt.path] == nil {
			methods[rt.path] = map[string]bool{}
		}
		methods[rt.path][rt.method] = true
	}
	for i := range s.h.routes { // who is let in matters here, and not what the page says
		if rt := &s.h.routes[i]; !rt.session {
			rt.live, rt.page = nil, func(*request) (*page, error) {
				return &page{Template: "fault", Title: "in", Data: &fault{Text: "let in"}}, nil
			}
		}
	}
	asked, met := 0, 0
	for mount, h := range map[string]http.Handler{"": s.h, "/jobs": http.StripPrefix("/jobs", s.h)} {
		for _, rt := range s.h.routes {
			p, ok := pages[rt.method+" "+rt.path]
			if !ok {
				t.Fatalf("%s %s is not in the table of pages", rt.method, rt.path)
			}
			for who, person := range people {
				for from, origin := range origins {
					for _, method := range []string{http.MethodGet, http.MethodPost} {
						if !methods[rt.path][method] != (method != rt.method) { // the other route of the path is tested for itself
							continue
						}
						if met++; met%harness.Effort(9, 1) != 0 { // others each time: the order of maps is random
							continue
						}
						s.h.logIns = limiter.New(0, 0)
						headers := append(append([]string{}, person.headers...), origin.headers...)
						if from == "proxied" { // over TLS the cookie has its other name
							for i := range headers {
								headers[i] = strings.Replace(headers[i], "troupe=", secureCookie+"=", 1)
							}
						}
						role, known := person.role, person.role > 0
						if from == "proxied by nobody" && !person.token && known { // another host is no machine of ours
							role, known = 0, false
						}
						asked++
						w := s.ask(h, method, mount+p.path, p.form.Encode(), headers...)
						what := fmt.Sprintf("%s %s%s, %s, %s", method, mount, p.path, who, from)
						refusedOrigin := method == http.MethodPost && !origin.ours && !person.token && (from != "none" || strings.Contains(fmt.Sprint(headers), "Cookie"))
						want := 0 // it is let in
						switch {
						case rt.session && method != rt.method:
							want = http.StatusMethodNotAllowed
							if !known {
								want = http.StatusUnauthorized
							}
						case rt.session && (refusedOrigin || rt.path == "/login" && method == http.MethodPost && !origin.ours && from != "none" && from != "null" && from != "same-site"):
							want = http.StatusForbidden
						case rt.session && rt.method == http.MethodPost && strings.HasSuffix(rt.path, "/login"):
							want = http.StatusUnauthorized // the password is wrong
						case rt.session:
						case !known:
							want = http.StatusUnauthorized
						case method != rt.method:
							want = http.StatusMethodNotAllowed
						case role < rt.role, refusedOrigin:
							want = http.StatusForbidden
						}
						switch got := w.Code; {
						case want != 0 && got != want:
							t.Errorf("%s: %d, expected %d", what, got, want)
						case want == 0 && (got == http.StatusUnauthorized || got == http.StatusForbidden || got == http.StatusMethodNotAllowed || got >= 500 || got == http.StatusTooManyRequests):
							t.Errorf("%s: %d, expected to be let in\n%s", what, got, w.Body)
						}
						checkHeaders(t, what, w.Header())
						if rt.path == "/logout" { // it has worked
							for id, name := range sessions {
								s.keep(id, name, time.Hour)
							}
						}
					}
				}
			}
		}
	}
	if asked < 1000 || t.Failed() {
		t.Errorf("asked %d times", asked)
	}
}

func checkHeaders(t *testing.T, what string, h http.Header) {
	t.Helper()
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		if got := h.Get(name); got != value {
			t.Errorf("%s: %s is %q, expected %q", what, name, got, value)
		}
	}
}

// Read-only, no address takes a POST but those to sign in and out.
func TestReadOnlyHasNoActions(t *testing.T) {
	set, _ := withUsers(t)
	s := start(t, set, func(o *Options) { o.ReadOnly = true })
	s.fixture()
	before := s.rdb.LLen(t.Context(), "queue:a/b.json").Val()
	ann := "troupe=" + s.signIn("ann", time.Hour)
	for _, rt := range allRoutes {
		p := pages[rt.method+" "+rt.path]
		w := s.ask(s.h, http.MethodPost, p.path, p.form.Encode(), "Cookie", ann, "Sec-Fetch-Site", "same-origin")
		closed := w.Code == http.StatusNotFound || w.Code == http.StatusMethodNotAllowed
		if isSession := rt.path == "/login" || rt.path == "/logout"; closed == isSession {
			t.Errorf("POST %s: %d", p.path, w.Code)
		}
		ann = "troupe=" + s.signIn("ann", time.Hour) // after a log-out
	}
	if s.rdb.LLen(t.Context(), "queue:a/b.json").Val() != before || s.rdb.Exists(t.Context(), "paused").Val() != 0 {
		t.Error("something was changed")
	}
}

func TestProxies(t *testing.T) {
	set, _ := withUsers(t)
	s := start(t, set, func(o *Options) {
		o.TrustProxies = []string{"10.1.0.0/16", "::1"}
		o.UserHeader = "X-Forwarded-User"
	})
	proxied := []string{"From", "10.1.2.3:4", "Host", "inner", "Accept", "application/json"}
	for _, c := range []struct {
		headers []string
		path    string
		want    int
	}{
		{[]string{"X-Forwarded-User", "ann"}, "/audit", 200},  // as in the users file
		{[]string{"X-Forwarded-User", "otto"}, "/audit", 403}, // an operator there
		{[]string{"X-Forwarded-User", "who"}, "/queues", 200}, // a viewer
		{[]string{"X-Forwarded-User", "who"}, "/audit", 403},
		{[]string{"X-Forwarded-User", "ann", "X-Forwarded-User", "otto"}, "/queues", 401},
		{[]string{"X-Forwarded-User", ""}, "/queues", 401},
		{nil, "/queues", 401},
	} {
		if w := s.ask(s.h, http.MethodGet, c.path, "", append(append([]string{}, proxied...), c.headers...)...); w.Code != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
		if w := s.ask(s.h, http.MethodGet, c.path, "", append(append([]string{"From", "10.2.0.1:1"}, c.headers...), "Accept", "application/json")...); w.Code != http.StatusUnauthorized {
			t.Errorf("%+v from another address: %d", c, w.Code)
		}
	}
	// a proxy may add its header to what a page of another site sends: without proof of ours it is refused
	if w := s.ask(s.h, http.MethodPost, "/queues/q/pause", "", append(proxied, "X-Forwarded-User", "ann")...); w.Code != http.StatusForbidden {
		t.Errorf("a POST without an origin: %d", w.Code)
	}
	roles := start(t, func(o *Options) {
		o.Authorize, o.TrustProxies, o.UserHeader, o.RoleHeader = nil, []string{"10.1.0.0/16"}, "X-User", "X-Role"
	})
	for role, want := range map[string]int{"admin": 200, "viewer": 403, "": 403, "root": 403} {
		if w := roles.ask(roles.h, http.MethodGet, "/audit", "", append(proxied, "X-User", "x", "X-Role", role)...); w.Code != want {
			t.Errorf("role %q: %d", role, w.Code)
		}
	}
	// prefix, address, host
	page := s.ask(s.h, http.MethodGet, "/queues", "", append(proxied[:4:4], "X-Forwarded-User", "ann", "X-Forwarded-Prefix", "/in/jobs")...).Body.String()
	contains(t, "the page", page, `href="/in/jobs/queues"`)
	for _, bad := range []string{"//evil.example", "http://evil.example", "/a//b", `/\evil`, "/a\"b"} {
		hasNot(t, "the page", s.ask(s.h, http.MethodGet, "/queues", "", append(proxied[:4:4], "X-Forwarded-User", "ann", "X-Forwarded-Prefix", bad)...).Body.String(), "evil", `a"b`, "/a//b")
	}
	hasNot(t, "the page", s.ask(s.h, http.MethodGet, "/queues", "", "X-Forwarded-Prefix", "/in/jobs").Body.String(), "/in/jobs")
}

// What a proxy has passed on is not from this machine, whatever its address says.
func TestOpenIsNotForProxies(t *testing.T) {
	s := start(t, func(o *Options) { o.Authorize = nil })
	for _, header := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded"} {
		if w := s.ask(s.h, http.MethodGet, "/queues", "", header, "192.0.2.1"); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", header, w.Code)
		}
	}
	if w := s.ask(s.h, http.MethodGet, "/queues", ""); w.Code != http.StatusOK {
		t.Errorf("from here: %d", w.Code)
	}
}
