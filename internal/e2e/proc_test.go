package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// proc is a process that a test has started; it is gone when the test is over.
type proc struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	stdout capture
	stderr capture
	gone   chan struct{}
	dull   bool      // not worth its log when the test has failed
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

// starts is served by one thread that lives as long as this process: the death
// signal of a child is tied to the thread that has started it.
var starts = sync.OnceValue(func() chan func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// start runs cmd; its environment is this process's own with env over it and
// without what would steer a daemon from outside.
func start(t testing.TB, name string, cmd *exec.Cmd, env ...string) *proc {
	t.Helper()
	p := &proc{t: t, name: name, cmd: cmd, gone: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
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
	starts() <- func() { errc <- cmd.Start() }
	if err := <-errc; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		_ = cmd.Wait()
		p.ended = time.Now()
		close(p.gone)
	}()
	t.Cleanup(func() {
		p.kill()
		if text := p.stderr.String(); strings.Contains(text, "WARNING: DATA RACE") {
			t.Errorf("%s: data race\n%s", name, tailOf(text, 20_000))
		} else if t.Failed() && !p.dull {
			t.Logf("--- %s, end of its stderr:\n%s--- its stdout:\n%s", name, tailOf(brief(text), 12_000), tailOf(p.stdout.String(), 4000))
		}
	})
	return p
}

func (p *proc) pid() int { return p.cmd.Process.Pid }

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %s: %v", p.name, err)
	}
}

// kill ends the process with SIGKILL and waits for it.
func (p *proc) kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

func (p *proc) running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// exit waits for the end of the process and returns its exit code.
func (p *proc) exit(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.gone:
	case <-time.After(limit):
		p.t.Fatalf("%s did not end within %s", p.name, limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop sends TERM and wants exit code 0. It returns the time that the stop took.
func (p *proc) stop(limit time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if code := p.exit(limit); code != 0 {
		p.t.Errorf("%s: exit code %d after TERM, want 0", p.name, code)
	}
	return p.ended.Sub(began)
}

// cpu is the time that the process has spent on a processor so far.
func (p *proc) cpu() time.Duration {
	p.t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.pid()), "stat"))
	if err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	// pid (name) state …: utime and stime are fields 14 and 15, in ticks of 10 ms
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// troupe runs the troupe command.
func troupeCmd(t testing.TB, env []string, args ...string) *proc {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), path, args...)
	cmd.Dir = t.TempDir()
	return start(t, "troupe "+args[0], cmd, env...)
}

// daemon runs "troupe run" with a configuration file and waits until it runs.
func daemon(t testing.TB, url, config string, flags ...string) *proc {
	t.Helper()
	p := daemonSoon(t, url, config, flags...)
	p.ready()
	return p
}

func daemonSoon(t testing.TB, url, config string, flags ...string) *proc {
	t.Helper()
	file := filepath.Join(t.TempDir(), "troupe.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return troupeCmd(t, nil, append([]string{"run", "-C", file, "--redis", url}, flags...)...)
}
