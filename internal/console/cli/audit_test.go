package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/console/audit"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// What was changed, or was to be, is in the audit with who and how it ended; what was not begun is not.
func TestAudit(t *testing.T) {
	rdb, url := redistest.New(t)
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "done: it is so"},
		{Exitf(Refused, "no"), "refused: it is so; no"},
		{&ExitError{Code: Partly}, "warning: it is so"},
		{errors.New("broken"), "failed: it is so; broken"},
		{Exitf(NotFound, "nothing"), ""},
		{Exitf(Fault, "a flag"), ""},
	} {
		rdb.Del(t.Context(), "troupe:audit")
		run(t.Context(), t, func(s *Session) error {
			s.About([]string{"queues", "a/b", "pause"}, "j1")
			s.Told("it is so", map[string]int{"done": 1})
			return errors.Join(s.Change("this"), c.err)
		}, "--redis", url, "--as", "ann")
		all, err := audit.All(t.Context(), rdb)
		got := ""
		for _, e := range all {
			got += e.Outcome + ": " + e.Text
			if e.User != "ann" || e.Via != audit.Command || e.Path != "/queues/a%2Fb/pause" || fmt.Sprint(e.Jobs, e.Filter) != "[j1] map[]" || string(e.Counts) != `{"done":1}` {
				t.Errorf("%+v", e)
			}
		}
		if err != nil || got != c.want {
			t.Errorf("%v: %q, %v, expected %q", c.err, got, err, c.want)
		}
	}
}

// A full Redis takes no entry: what frees its memory is done all the same, and the missing entry is told.
func TestAuditOfAFullRedis(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer func() { _ = rdb.Close() }()
	rdb.LPush(t.Context(), "queue:q", strings.Repeat("x", 1000))
	if err := rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	code, text := run(t.Context(), t, func(s *Session) error {
		return errors.Join(s.Change("clearing"), s.Redis.Del(t.Context(), "queue:q").Err())
	}, "--redis", server.URL(0))
	if code != Done || !strings.Contains(text, "troupe: warning: this is not in the audit: OOM") || rdb.Exists(t.Context(), "queue:q").Val() != 0 {
		t.Errorf("%d: %s", code, text)
	}
}
