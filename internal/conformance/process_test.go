package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one that the tests have started.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdout capture
	stderr capture
	gone   chan struct{}
	ended  time.Time // valid once gone is closed
}

// capture keeps what a process writes.
type capture struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(p)
}

func (c *capture) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

// launches is served by one thread that lives as long as the tests: the death
// signal of a child is tied to the thread that has started it.
var launches = sync.OnceValue(func() chan func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// launch starts cmd with env over this process's own environment, from which
// everything is taken that would steer a daemon. It dies with the tests.
func launch(name string, cmd *exec.Cmd, env ...string) (*process, error) {
	p := &process{name: name, cmd: cmd, gone: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.stdout
	}
	cmd.Stderr = &p.stderr
	cmd.WaitDelay = time.Second
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{
			"REDIS_URL", "REDIS_PROVIDER", "APP_ENV", "RAILS_ENV", "RACK_ENV", "RAILS_MAX_THREADS",
			"DYNO", "NOTIFY_SOCKET", "DEBUG_INVOCATION",
		}, name)
	}), env...)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // else the race detector sleeps a second at the end
	cmd.SysProcAttr = dieWithParent()
	errc := make(chan error)
	launches() <- func() { errc <- cmd.Start() }
	if err := <-errc; err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		p.ended = time.Now()
		close(p.gone)
	}()
	return p, nil
}

// own ties a process to a test: killed at its end, and shown if it failed.
func (p *process) own(t testing.TB) *process {
	t.Cleanup(func() {
		p.kill()
		text := p.stderr.String()
		if strings.Contains(text, "WARNING: DATA RACE") {
			t.Errorf("%s: data race\n%s", p.name, tail(text, 20_000))
		} else if t.Failed() {
			t.Logf("--- %s, end of its stderr:\n%s--- its stdout:\n%s", p.name, tail(text, 12_000), tail(p.stdout.String(), 4000))
		}
	})
	return p
}

func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return "…" + s[len(s)-n:]
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal %s: %v", p.name, err)
	}
}

// kill ends the process with SIGKILL and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

func (p *process) running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// exit waits for the end of the process and returns its exit code.
func (p *process) exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.gone:
	case <-time.After(soon):
		t.Fatalf("%s did not end within %s", p.name, soon)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop sends TERM and wants exit code 0.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("%s: exit code %d after TERM, want 0", p.name, code)
	}
}

// line is one line of a JSON log.
type line map[string]any

func (l line) str(key string) string { s, _ := l[key].(string); return s }

// logged returns the lines of the log with this message.
func (p *process) logged(message string) []line {
	var found []line
	for text := range strings.Lines(p.stderr.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.str("message") == message {
			found = append(found, l)
		}
	}
	return found
}

// awaitLog waits for a line of the log and returns the first one.
func (p *process) awaitLog(t testing.TB, message string) line {
	t.Helper()
	await(t, p.name+" logs "+strconv.Quote(message), func() bool { return len(p.logged(message)) > 0 || !p.running() })
	lines := p.logged(message)
	if len(lines) == 0 {
		t.Fatalf("%s has ended with code %d and has not logged %q", p.name, p.exit(t), message)
	}
	return lines[0]
}
