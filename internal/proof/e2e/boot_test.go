package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestBootFailuresExitWith1AndSayWhy(t *testing.T) {
	t.Parallel()
	_, url := redistest.New(t)
	odd, oddURL := redistest.New(t)
	harness.OK(t, odd.Set(t.Context(), "retry", "a text", 0).Err())
	good := filepath.Join(t.TempDir(), "good.yml")
	bad := filepath.Join(t.TempDir(), "bad.yml")
	for file, text := range map[string]string{good: commandConfig, bad: "concurrency: many\nqueus: [a]\n"} {
		harness.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"unreachable Redis", []string{"-C", good, "--redis", "redis://127.0.0.1:1/0"}, []string{"127.0.0.1:1", "refused"}},
		{"a key of the wrong type", []string{"-C", good, "--redis", oddURL}, []string{"retry", "string", "zset"}},
		{"bad URL", []string{"-C", good, "--redis", "http://x"}, []string{"--redis", "http://x", "redis://"}},
		{"unknown flag", []string{"-C", good, "--redis", url, "--nonsense"}, []string{"--nonsense"}},
		{"concurrency 0", []string{"-C", good, "--redis", url, "-c", "0"}, []string{"-c", `"0"`, "whole number"}},
		{"timeout 0", []string{"-C", good, "--redis", url, "-t", "0"}, []string{"-t", `"0"`, "seconds"}},
		{"an argument", []string{"-C", good, "--redis", url, "extra"}, []string{"extra"}},
		{"missing file", []string{"-C", "nowhere.yml", "--redis", url}, []string{"nowhere.yml"}},
		{"bad file", []string{"-C", bad, "--redis", url}, []string{"bad.yml:1", "concurrency", "many", "bad.yml:2", "queues"}},
		{"no handlers", []string{"--redis", url}, []string{"handlers"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := procs.Troupe(t, nil, append([]string{"run"}, c.args...)...)
			harness.Equal(t, "exit code", p.Exit(soon), 1)
			text := p.Stderr()
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("stderr has no %q: %s", want, text)
				}
			}
			if strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
				t.Errorf("stderr has a stack: %s", text)
			}
		})
	}
	t.Run("library", func(t *testing.T) {
		t.Parallel()
		p := startWorkerSoon(t, workerSpec{Redis: url, Records: url, Lease: time.Millisecond})
		if code := p.Exit(soon); code != 1 || !strings.Contains(p.Stderr(), "Lease is 1ms") {
			t.Errorf("exit code %d: %s", code, p.Stderr())
		}
		p = startWorkerSoon(t, workerSpec{Redis: "redis://127.0.0.1:1/0", Records: url})
		if code := p.Exit(soon); code != 1 {
			t.Errorf("exit code %d: %s", code, p.Stderr())
		}
	})
}

func TestVersionAndHelpExitWith0(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"-V"}, {"run", "-V"}, {"--help"}, {"run", "-h"}} {
		p := procs.Troupe(t, nil, args...)
		if code := p.Exit(soon); code != 0 || p.Stdout() == "" {
			t.Errorf("troupe %v: exit code %d, printed %q", args, code, p.Stdout())
		}
	}
}

// A supervision tree that gives up ends the process in good order with 70, and
// what it had fetched is back in its queue.
func TestEscalationExitsWith70(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	_, running := push(t, rdb, "Nap", "[60]")
	p := startWorker(t, workerSpec{Redis: url, Records: newRecords(t).url, Escalate: true, Lease: 2 * time.Second, Capsules: []capsuleSpec{
		{Concurrency: 2, Queues: []string{"default"}},
		{Name: "bug", Concurrency: 1, Queues: []string{"bug"}, Fetch: "panics"},
	}})
	harness.Equal(t, "exit code", p.Exit(soon), 70)
	why := p.AwaitLog("the supervision tree gave up: stopping")
	for _, part := range []string{"escalated: launcher/bug failed", "launcher/bug/fetcher", "fetcher with a bug"} {
		if !strings.Contains(harness.Str(why, "error"), part) {
			t.Errorf("the reason has no %q: %s", part, harness.Str(why, "error"))
		}
	}
	if left := leftovers(t, rdb); len(left) != 1 || left[0] != "queue:default: "+running {
		t.Errorf("left in Redis: %v", left)
	}
	harness.Drain(t, p)
}

// Panics of jobs spend no budget by themselves; what a strategy makes of them does.
func TestEscalatedPanicsOfJobsExitWith70(t *testing.T) {
	t.Parallel()
	rdb, url := redistest.New(t)
	const jobs = 30
	for range jobs {
		push(t, rdb, "Boom", "[]")
	}
	p := startWorkerSoon(t, workerSpec{Redis: url, Records: newRecords(t).url, Escalate: true,
		Capsules: []capsuleSpec{{Concurrency: 1, Queues: []string{"default"}}}})
	harness.Equal(t, "exit code", p.Exit(soon), 70)
	if left := leftovers(t, rdb); len(left) != jobs || len(private(t, rdb)) != 0 {
		t.Errorf("%d jobs are left of %d, all retried or waiting", len(left), jobs)
	}
}
