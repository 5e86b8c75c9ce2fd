package screen_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// The overview has the dangers that the doctor finds, with the time, and says how to see all; a look does not wait
// for it, and its failure is none of the page.
func TestTheDoctorOnTheOverview(t *testing.T) {
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.ConfigSet(t.Context(), "maxmemory", "100mb")
	rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
	rdb.SAdd(t.Context(), "cron_jobs", "cron_job:nightly")
	rdb.HSet(t.Context(), "cron_job:nightly", "name", "nightly", "klass", "Report", "cron", "61 * * * *", "status", "enabled", "message", `{"class":"Report","queue":"default","args":[]}`)
	look := source(rdb)
	s := show(t, 160, 24, screen.Options{Source: look, Page: page("overview"), Every: time.Second})
	if text := s.Await("No process runs."); strings.Contains(text, "octor") {
		t.Errorf("who did not ask for the doctor sees:\n%s", text)
	}
	s.Type("q")
	<-s.ended

	look.Audit = true
	s = show(t, 160, 24, screen.Options{Source: look, Page: page("overview"), Every: time.Second})
	s.Await("The doctor looked ")
	text := s.Await("; all: troupe doctor.")
	for _, want := range []string{"! Redis drops keys when its 104857600 bytes are full", "! The periodic job nightly pushes nothing: it cannot be carried out"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	s.Type("q")
	<-s.ended
}
