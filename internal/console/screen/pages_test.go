package screen_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/console/screen"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// Each page, over what Ruby's Sidekiq has written, on three terminals.
func TestPages(t *testing.T) {
	rdb, url := redistest.New(t)
	ruby(t, url)
	for _, page := range []string{
		":overview", ":processes", ":tree web:7:bb", ":tree ruby:1:aa", ":tree", ":queues", ":running", ":retry", ":scheduled", ":dead", ":queue low",
		":queue nothing", ":events", ":explain r1", ":explain nope", ":help",
	} {
		t.Run(strings.TrimPrefix(page, ":"), func(t *testing.T) {
			processes(t, rdb) // anew: ages are to be the same
			p := harness.Must(screen.ParsePage(page))(t)
			look := source(rdb)
			look.ReadOnly = true // nobody would answer
			path := filepath.Join("testdata", strings.NewReplacer(":", "", " ", "-").Replace(page)+".golden")
			golden, err := os.ReadFile(path)
			if err != nil && !*update {
				t.Fatal(err)
			}
			wants := strings.SplitAfter(string(golden), "\f\n")
			var all strings.Builder
			for i, size := range []struct{ width, height int }{{40, 16}, {80, 24}, {120, 30}} {
				s := show(t, size.width, size.height, screen.Options{Source: look, Place: "redis://localhost:6379/0", Page: p, Every: time.Hour})
				frame := func() string { return fmt.Sprintf("%d columns\n%s\f\n", size.width, still(s.Text())) }
				if *update {
					time.Sleep(300 * time.Millisecond) // there is no text yet to wait for
				} else if !harness.Within(time.Minute, func() bool { return frame() == wants[i] }) { // a frame is not drawn at once
					t.Errorf("%s differs; got:\n%s\nwant:\n%s", path, frame(), wants[i])
				}
				all.WriteString(frame())
				s.Type("q")
				<-s.ended
			}
			if *update {
				harness.OK(t, os.WriteFile(path, []byte(all.String()), 0o644))
			}
		})
	}
}
