package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// app is a Laravel application and its Redis.
type app struct {
	t      testing.TB
	rdb    *redis.Client
	addr   string
	prefix string
	env    []string

	mu      sync.Mutex
	console *php // app/push.php
}

// php is a process of PHP.
type php struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan map[string]any // what it says; closed at its end
	ended chan struct{}
	code  int // its exit code, or -1
}

var wanted = sync.OnceValue(func() error {
	const test = `foreach (['Queue', 'Redis', 'Database', 'Events', 'Cache', 'Encryption', 'Bus'] as $p) { require "Illuminate/$p/autoload.php"; }
		exit(extension_loaded('redis') && extension_loaded('pdo_sqlite') && extension_loaded('pcntl') ? 0 : 1);`
	if out, err := exec.CommandContext(context.Background(), "php", "-r", test).CombinedOutput(); err != nil {
		return fmt.Errorf("PHP with Laravel's queue is not installed: %w %.200s", err, out)
	}
	return nil
})

// newApp starts a Redis for an application with a prefix.
func newApp(t testing.TB, prefix string, env ...string) *app {
	t.Helper()
	if err := wanted(); err != nil {
		redistest.Missing(t, err)
	}
	server := redistest.Start(t)
	_, port, err := net.SplitHostPort(server.Addr)
	harness.OK(t, err)
	a := &app{t: t, addr: server.Addr, prefix: prefix, rdb: redis.NewClient(&redis.Options{Addr: server.Addr})}
	t.Cleanup(func() { _ = a.rdb.Close() })
	a.env = append([]string{
		"REDIS_PORT=" + port, "REDIS_PREFIX=" + prefix, "FAILED_DB=" + filepath.Join(t.TempDir(), "failed.sqlite"),
	}, env...)
	return a
}

// start starts a script of the application.
func (a *app) start(script string, args ...string) *php {
	a.t.Helper()
	p := &php{lines: make(chan map[string]any, 1000), ended: make(chan struct{}), code: -1}
	p.cmd = exec.CommandContext(context.Background(), "php", append([]string{"-d", "display_errors=stderr", filepath.Join("app", script)}, args...)...)
	p.cmd.Env = append(os.Environ(), a.env...)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		a.t.Fatal(err)
	}
	out := harness.Must(p.cmd.StdoutPipe())(a.t)
	harness.OK(a.t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		defer close(p.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			var line map[string]any
			if json.Unmarshal(scan.Bytes(), &line) == nil {
				p.lines <- line
			}
		}
		_ = p.cmd.Wait()
		p.code = p.cmd.ProcessState.ExitCode()
	}()
	a.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// work starts a worker and waits until it works.
func (a *app) work(args ...string) *php {
	a.t.Helper()
	p := a.start("work.php", args...)
	p.says(a.t, "ready")
	return p
}

// says waits for an event.
func (p *php) says(t testing.TB, event string) map[string]any {
	t.Helper()
	for timeout := time.After(30 * time.Second); ; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("PHP ended before it said %q", event)
			}
			if line["event"] == event {
				return line
			}
		case <-timeout:
			t.Fatalf("PHP did not say %q", event)
		}
	}
}

// exits waits for its end.
func (p *php) exits(t testing.TB) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		t.Fatal("PHP did not end")
	}
	return p.code
}

// do has the application carry out a command of push.php.
func (a *app) do(command map[string]any) any {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.console == nil {
		a.console = a.start("push.php")
	}
	line := harness.Must(json.Marshal(command))(a.t)
	harness.Must(a.console.in.Write(append(line, '\n')))(a.t)
	return a.console.says(a.t, command["do"].(string))["got"]
}

// push pushes a string job by PHP.
func (a *app) push(queue, name string, data any) {
	a.t.Helper()
	a.do(map[string]any{"do": "push", "queue": queue, "job": name, "data": data})
}

// failed are the rows of failed_jobs.
func (a *app) failed() (rows []map[string]any) {
	a.t.Helper()
	got, _ := a.do(map[string]any{"do": "failed"}).([]any)
	for _, row := range got {
		rows = append(rows, row.(map[string]any))
	}
	return rows
}

// run is one run of a job, on either side.
type run struct {
	Side    string
	Job     string
	Data    json.RawMessage
	Attempt int
	At      float64
}

func (a *app) runs() (runs []run) {
	a.t.Helper()
	list := harness.Must(a.rdb.LRange(context.Background(), "runs", 0, -1).Result())(a.t)
	for _, text := range list {
		var r run
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			a.t.Fatalf("%s: %v", text, err)
		}
		runs = append(runs, r)
	}
	return runs
}

// await waits until cond holds.
func (a *app) await(what string, cond func() bool) {
	a.t.Helper()
	if !harness.Within(harness.Patience, cond) {
		a.t.Fatalf("not within %s: %s; runs %+v; keys %v", harness.Patience, what, a.runs(), a.left())
	}
}

// awaitRuns waits for n runs.
func (a *app) awaitRuns(n int) []run {
	a.t.Helper()
	a.await(fmt.Sprint(n, " runs"), func() bool { return len(a.runs()) >= n })
	return a.runs()
}

// left lists the keys of the queues.
func (a *app) left() (keys []string) {
	all := harness.Must(a.rdb.Keys(context.Background(), a.prefix+"queues:*").Result())(a.t)
	return all
}

// awaitEmpty waits until no key of a queue is left, tokens included.
func (a *app) awaitEmpty() {
	a.t.Helper()
	a.await("empty queues", func() bool { return len(a.left()) == 0 })
}

func shown(runs []run) string {
	var s []string
	for _, r := range runs {
		s = append(s, fmt.Sprintf("%s %s %s %d", r.Side, r.Job, r.Data, r.Attempt))
	}
	return strings.Join(s, "; ")
}
