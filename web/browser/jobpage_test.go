package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/scores"
)

// A job that runs has its bar on its page and on that of running jobs, with the rate and the time that is left; one that has ended has its
// result, whose secrets are masked.
func TestProgressAndResult(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx, now := t.Context(), time.Now()
	runs, ended := crew[0].jid(0), "5eed00000000000000000042"
	pipe := s.rdb.Pipeline()
	crew[0].beat(ctx, pipe, now, 1)
	pipe.HSet(ctx, keys.Progress(crew[0].id), runs, job.Progress{Done: 640, Total: 1000, Text: "rows", At: scores.Of(now), Rate: 6}.JSON())
	pipe.Set(ctx, keys.Result(ended), `{"outcome":"done","at":1795225014.209691,"result":{"bytes":1000,"password":"s3cr3t"}}`, time.Hour)
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	b := open(t, s.base)
	const bars = `[...document.querySelectorAll("main progress")].filter((el) => el.checkVisibility()).map((el) => el.value + " of " + el.max + ", " + el.getAttribute("aria-label") + ": " + el.parentElement.textContent.trim()).join("\n")`
	for _, p := range []shown{{name: "running", path: "/running"}, {name: "job", path: "/jobs/" + runs}} {
		b.sound(p)
		got := run[string](b, bars)
		for _, want := range []string{"64 of 100, Progress of the job: ", "640 of 1,000", "rows", "6.0/s", "1m0s left"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the bar is %q, want %q in it", p.path, got, want)
			}
		}
	}
	b.sound(shown{name: "job", path: "/jobs/" + ended})
	const card = `[...document.querySelectorAll("section")].filter((el) => el.querySelector("h2")?.textContent === "Result" && el.checkVisibility()).map((el) => el.textContent.trim()).join("\n")`
	got := run[string](b, card)
	if !strings.Contains(got, "done") || !strings.Contains(got, `"bytes":1000`) || strings.Contains(got, "s3cr3t") {
		t.Errorf("the card of the result is %q", got)
	}
}
