package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
	"github.com/troupehq/troupe/web/internal/limiter"
)

// Every page is there on a Redis that cannot be written, with and without ReadOnly; what changes
// something is refused there, and Redis is not told to be away.
func TestPagesNeedNoWriting(t *testing.T) {
	for _, state := range redistest.Unwritables(t, func(rdb *redis.Client) { (&site{t: t, rdb: rdb, h: start(t).h}).fixture() }) {
		t.Run(state.Name, func(t *testing.T) {
			opt := harness.Must(redis.ParseURL(state.URL))(t)
			rdb := redis.NewClient(opt)
			t.Cleanup(func() { _ = rdb.Close() })
			for _, readOnly := range []bool{true, false} {
				h := harness.Must(New(Options{Redis: rdb, Authorize: byHeader, ReadOnly: readOnly}))(t)
				t.Cleanup(h.Close)
				h.actions = limiter.New(0, 0)
				s := &site{t: t, rdb: rdb, url: state.URL, h: h}
				s.task()
				s.serve(h)
				for _, rt := range h.routes {
					p, ok := pages[rt.method+" "+rt.path]
					if !ok {
						t.Errorf("%s %s is not in the table of pages", rt.method, rt.path)
					}
					status, text, _ := s.do(rt.method, p.path, p.form.Encode())
					switch {
					case rt.path == "/live" && status == http.StatusBadRequest:
					case !rt.changes() && status != http.StatusOK:
						t.Errorf("GET %s, read-only %v: %d\n%s", p.path, readOnly, status, text)
					}
					if strings.Contains(text, "does not answer") || strings.Contains(text, "EXECABORT") {
						t.Errorf("%s %s, read-only %v: %d\n%s", rt.method, p.path, readOnly, status, text)
					}
				}
			}
			s := &site{t: t, rdb: rdb}
			h := harness.Must(New(Options{Redis: rdb, Authorize: byHeader}))(t)
			t.Cleanup(h.Close)
			s.serve(h)
			status, text, _ := s.do(http.MethodPost, "/queues/x/pause", "")
			if status != http.StatusServiceUnavailable || !strings.Contains(text, "Redis refuses this: ") || !strings.Contains(text, state.Code) {
				t.Errorf("pausing: %d\n%s", status, text)
			}
		})
	}
}
