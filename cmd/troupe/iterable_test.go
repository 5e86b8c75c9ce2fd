package main

import (
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// How far an iterable job has come is told wherever it is: by explain, by lists, as JSON, and by inspect.
func TestProgressOfIterableJobs(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	fill(t, rdb) // walks runs, and has a state
	harness.OK(t, rdb.HSet(t.Context(), "it-r1", "ex", 3, "c", `{"token":"hunter2","row":41}`, "rt", "80.25").Err())
	harness.OK(t, rdb.Set(t.Context(), "it-d1", "of another kind", 0).Err())
	for line, want := range map[string]string{
		"explain walks":               "It is an iterable job that has begun: 1 run, 0s, cursor 199.",
		"explain walks --json":        `"progress":{"executions":1,"cursor":199,"runtime_s":0}`,
		"explain r1":                  `3 runs, 1m20s, cursor {"token":"[masked]","row":41}`,
		"jobs list running":           "\t1 run, 0s, cursor 199\n",
		"jobs list running --json":    `"progress":{"executions":1,"cursor":199,"runtime_s":0}`,
		"jobs list retry":             "\t3 runs, 1m20s, cursor {\"token\":\"[masked]\",\"row\":41}\n",
		"jobs list retry --json":      `"progress":{"executions":3,"cursor":{"token":"[masked]","row":41},"runtime_s":80.25}`,
		"jobs list dead":              "d1",
		"top :retry":                  "3 runs, 1m20s, cursor {\"token\":\"[masked]\"",
		"top :dead":                   "d1",
		"explain d1":                  "dead",
		"jobs list scheduled":         "s1",
		"jobs list retry --args show": "hunter2",
	} {
		got := call(t.Context(), append(strings.Fields(line), "--redis", url)...)
		if got.code != 0 || !strings.Contains(got.out, want) || strings.Contains(got.out, "hunter2") != strings.Contains(line, "show") {
			t.Errorf("troupe %s: %s, expected %s", line, got, want)
		}
	}
	its, err := inspect.New(rdb).Iterations(t.Context(), "walks", "nothing", "r1", "d1")
	harness.OK(t, err)
	if len(its) != 4 || its[0].Executions != 1 || its[1].Executions != 0 || its[2].Runtime != 80250*time.Millisecond || string(its[0].Cursor) != "199" || its[3].Executions != 0 {
		t.Errorf("%+v", its)
	}
	if its, err = inspect.New(rdb).Iterations(t.Context(), "d1"); err != nil || len(its) != 1 { // alone as among others
		t.Errorf("of a job whose state is no hash: %+v, %v", its, err)
	}
}
