package browser

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/web"
)

// site is a dashboard of a database of its own.
type site struct {
	t    testing.TB
	rdb  *redis.Client
	url  string // of the database
	base string // of the pages: http://127.0.0.1:1234
}

// start serves a dashboard. Who asks is an admin, or who the cookie "who" says: an operator.
func start(t testing.TB) *site {
	t.Helper()
	rdb, address := redistest.New(t)
	s := &site{t: t, rdb: rdb, url: address}
	s.base = s.serve(web.Options{}, func(h http.Handler) http.Handler { return h })
	return s
}

// serve serves a dashboard of the database, mounted as told, and returns its address.
func (s *site) serve(o web.Options, mount func(http.Handler) http.Handler) string {
	s.t.Helper()
	if o.Redis = s.rdb; o.Users == "" {
		o.Authorize = func(r *http.Request) (web.User, error) {
			if c, err := r.Cookie("who"); err == nil {
				return web.User{Name: c.Value, Role: web.Operator}, nil
			}
			return web.User{Name: "ann", Role: web.Admin}, nil
		}
	}
	h, err := web.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	server := httptest.NewServer(mount(h))
	s.t.Cleanup(func() {
		h.Close() // live connections end
		server.Close()
	})
	return server.URL
}

// send sends a request without the browser, as its pages would, with headers by turns. The path is
// that of where it leads to.
func (s *site) send(method, path string, form url.Values, headers ...string) (status int, text, at string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, string(body), answer.Request.URL.Path
}

// ruby runs a script with the client and the API of real Sidekiq, after testdata/shop.rb.
func (s *site) ruby(script string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "ruby", "-W0", "-EUTF-8:UTF-8", "-r", "./testdata/shop.rb", "-e", script)
	cmd.Env = append(cmd.Environ(), "REDIS_URL="+s.url, "REDIS_PROVIDER=", "LANG=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		if exec.CommandContext(s.t.Context(), "ruby", "-rsidekiq", "-e", "0").Run() != nil {
			redistest.Missing(s.t, err)
		}
		s.t.Fatalf("ruby: %v\n%s", err, out)
	}
}

// sidekiq starts a process of real Sidekiq on a host of that name, and waits until it has beaten.
func (s *site) sidekiq(host string, flags ...string) *chaos.Process {
	s.t.Helper()
	if _, err := exec.LookPath("sidekiq"); err != nil {
		redistest.Missing(s.t, err)
	}
	file, err := filepath.Abs("testdata/shop.rb")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "sidekiq", append([]string{"-r", file, "-g", "shop", "-t", "1"}, flags...)...)
	cmd.Dir = s.t.TempDir()
	before := s.rdb.SCard(s.t.Context(), "processes").Val()
	p := chaos.Launch(s.t, host, cmd, "REDIS_URL="+s.url, "RUBYOPT=-W0", "DYNO="+host)
	testkit.Await(s.t, "sidekiq runs", func() bool { return !p.Running() || s.rdb.SCard(s.t.Context(), "processes").Val() > before })
	return p
}

// daemon starts a process of troupe on a host of that name, and returns it with its identity.
func (s *site) daemon(host string, env ...string) (p *chaos.Process, identity string) {
	s.t.Helper()
	p = chaos.Launch(s.t, host, exec.CommandContext(context.Background(), os.Args[0]), append(env, daemonEnv+"="+s.url, "DYNO="+host)...)
	return p, p.Ready()
}
