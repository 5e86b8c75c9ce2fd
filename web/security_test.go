package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestHeaders(t *testing.T) {
	s := start(t)
	for _, path := range []string{"/", "/queues.json", "/nothing", assets()["troupe.css"].address} {
		_, _, answer := s.do(http.MethodGet, path, "")
		h := answer.Header
		contains(t, path, h.Get("Content-Security-Policy"), "default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'")
		want := map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store"}
		if strings.HasPrefix(path, "/static/") {
			want["Cache-Control"] = "public, max-age=31536000, immutable"
		}
		for name, value := range want {
			if got := h.Get(name); got != value {
				t.Errorf("%s of %s is %q, expected %q", name, path, got, value)
			}
		}
	}
	// what the policy forbids is not there
	hasNot(t, "the page", s.get("/"), "style=", "<style", "onclick", "<script>")
	for name, a := range assets() {
		if len(a.packed) > 8<<10 {
			t.Errorf("%s has %d bytes packed, expected at most 8 KB", name, len(a.packed))
		}
	}
}

// What changes something must come from a page of the dashboard, or from a program.
func TestOrigin(t *testing.T) {
	s := start(t)
	host := strings.TrimPrefix(s.base, "http://")
	for _, c := range []struct {
		site, origin, cookie string
		want                 int
	}{
		{"same-origin", "", "", 200},
		{"none", "", "", 200},
		{"same-site", "", "", 403},
		{"cross-site", "", "", 403},
		{"", "http://" + host, "a=b", 200},
		{"", "http://evil.example", "", 403},
		{"", "null", "", 403},
		{"", "", "", 200},    // a program
		{"", "", "a=b", 403}, // an old browser
		{"cross-site", "http://" + host, "", 403},
	} {
		s.Jar = nil
		status, text, _ := s.do(http.MethodPost, "/queues/q/pause", "", "Sec-Fetch-Site", c.site, "Origin", c.origin, "Cookie", c.cookie, "Accept", "application/json")
		if status != c.want {
			t.Errorf("%+v: %d %s", c, status, text)
		}
	}
}

// Without users it is for this machine, by a name of this machine.
func TestOnlyHere(t *testing.T) {
	s := start(t, func(o *Options) { o.Authorize = nil })
	contains(t, "the page", s.get("/"), "local", "admin")
	for _, c := range []struct {
		host, from string
		want       int
	}{
		{"localhost:8080", "127.0.0.1:1", 200}, {"[::1]:8080", "[::1]:1", 200}, {"127.0.0.2", "127.0.0.1:1", 200},
		{"evil.example", "127.0.0.1:1", 403}, {"localhost", "10.0.0.1:1", 403}, {"localhost.evil.example", "127.0.0.1:1", 403}, {"", "127.0.0.1:1", 403},
	} {
		r := harness.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "/queues.json", nil))(t)
		r.Host, r.RemoteAddr, r.RequestURI = c.host, c.from, "/queues.json"
		w := &answer{header: http.Header{}}
		s.h.ServeHTTP(w, r)
		if w.status != c.want {
			t.Errorf("%+v: %d %s", c, w.status, w.String())
		}
	}
}

type answer struct {
	strings.Builder
	header http.Header
	status int
}

func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }

func TestServe(t *testing.T) {
	s := start(t)
	for address, want := range map[string]string{"0.0.0.0:0": "this machine alone", ":0": "this machine alone", "192.0.2.1:80": "this machine alone", "nonsense": "HOST:PORT"} {
		h := harness.Must(New(Options{Redis: s.rdb}))(t)
		harness.ErrorHas(t, address, h.Serve(t.Context(), address, nil), want)
	}
	h := harness.Must(New(Options{Redis: s.rdb, BasePath: "/jobs"}))(t)
	ctx, stop := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() { ended <- h.Serve(ctx, "localhost:0", func(url string) { ready <- url }) }()
	select {
	case s.base = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	s.get("queues")
	stop()
	if err := <-ended; err != nil {
		t.Errorf("after a stop: %v", err)
	}
}

func TestOptions(t *testing.T) {
	if _, err := New(Options{BasePath: "jobs", Args: "some"}); err == nil {
		t.Error("no error")
	} else {
		contains(t, "the error", err.Error(), "Options.Redis is nil", `Options.BasePath is "jobs"`, `Options.Args is "some"`)
	}
}

func TestActionsAreLogged(t *testing.T) {
	var log strings.Builder
	s := start(t, func(o *Options) { o.Logger = zerolog.New(&log) })
	s.do(http.MethodPost, "/queues/mail/pause", "", "Role", "operator", "Accept", "application/json")
	contains(t, "the log", log.String(), `"user":"otto"`, `"role":"operator"`, `"action":"/queues/{name}/pause"`, `"target":"/queues/mail/pause"`, `"outcome":"done"`, `"counts":{"paused":true}`, `"address":"127.0.0.1"`)
}

// What cannot be shown is told with all headers that the pages have.
func TestErrorsHaveTheHeaders(t *testing.T) {
	s := start(t)
	for kind, say := range map[string]func(*request){
		"application/json": func(r *request) { r.writeJSON(http.StatusOK, make(chan int)) },
		"text/plain":       func(r *request) { r.writeHTML(http.StatusOK, &page{Template: "set", Data: 1}) },
	} {
		w := httptest.NewRecorder()
		setHeaders(w.Header())
		say(&request{Handler: s.h, Request: httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), w: w, path: "/", user: User{"ann", Admin}})
		h := w.Header()
		if w.Code != http.StatusInternalServerError || h.Get("Cache-Control") != "no-store" || h.Get("Content-Security-Policy") != policy || h.Get("Content-Type") != kind+"; charset=utf-8" || w.Body.Len() == 0 {
			t.Errorf("%s: %d %v", kind, w.Code, h)
		}
	}
}
