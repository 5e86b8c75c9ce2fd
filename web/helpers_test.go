package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/web/internal/limiter"
)

// site is a dashboard on a server of its own, and a browser.
type site struct {
	t    testing.TB
	rdb  *redis.Client
	url  string // of Redis
	h    *Handler
	base string // http://127.0.0.1:1234/jobs
	*http.Client
}

// start serves a dashboard of a clean database. Users name their role in the header Role; without
// it they are admins.
func start(t testing.TB, set ...func(*Options)) *site {
	t.Helper()
	rdb, address := redistest.New(t)
	o := Options{Redis: rdb, Authorize: byHeader}
	for _, s := range set {
		s(&o)
	}
	h := harness.Must(New(o))(t)
	t.Cleanup(h.Close)
	h.strangers = limiter.New(0, 0)
	h.actions = limiter.New(0, 0) // but for the tests of the limit
	s := &site{t: t, rdb: rdb, url: address, h: h}
	s.serve(h)
	return s
}

func byHeader(r *http.Request) (User, error) {
	switch r.Header.Get("Role") {
	case "":
		return User{"ann", Admin}, nil
	case "operator":
		return User{"otto", Operator}, nil
	case "viewer":
		return User{"vera", Viewer}, nil
	case "nobody":
		return User{"noah", 0}, nil
	}
	return User{}, errors.New("who are you")
}

func (s *site) serve(h http.Handler) {
	server := httptest.NewServer(h)
	s.t.Cleanup(server.Close)
	jar, _ := cookiejar.New(nil)
	s.base, s.Client = server.URL, &http.Client{Jar: jar}
}

// do sends a request as a page of the dashboard would, with headers by turns.
func (s *site) do(method, path, body string, headers ...string) (status int, text string, answer *http.Response) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(body))
	harness.OK(s.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	answer, err = s.Do(r)
	harness.OK(s.t, err)
	defer func() { _ = answer.Body.Close() }()
	b := harness.Must(io.ReadAll(answer.Body))(s.t)
	return answer.StatusCode, string(b), answer
}

// get returns the text of a page that is there.
func (s *site) get(path string, headers ...string) string {
	s.t.Helper()
	status, text, _ := s.do(http.MethodGet, path, "", headers...)
	if status != http.StatusOK {
		s.t.Fatalf("GET %s: %d\n%s", path, status, text)
	}
	return text
}

// data returns the data of the JSON of a page.
func (s *site) data(path string, headers ...string) (data json.RawMessage) {
	s.t.Helper()
	var v struct {
		At   string          `json:"at"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal([]byte(s.get(path, headers...)), &v); err != nil || v.At == "" || v.Data == nil {
		s.t.Fatalf("%s: %v, %+v", path, err, v)
	}
	return v.Data
}

// post sends a form and returns where it leads to, and the page there.
func (s *site) post(path string, form url.Values, headers ...string) (status int, text string) {
	s.t.Helper()
	status, text, _ = s.do(http.MethodPost, path, form.Encode(), headers...)
	return status, text
}

func contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s has no %q:\n%s", what, part, text)
		}
	}
}

func hasNot(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%s has %q", what, part)
		}
	}
}
