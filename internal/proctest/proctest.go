// Package proctest runs the processes of tests: daemons, workers and Ruby's
// Sidekiq, with their output kept, their logs read, and their end seen. None of
// them outlives the test binary.
package proctest

import (
	"bytes"
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

// Process is one that a test has started.
type Process struct {
	Name           string
	Stdout, Stderr Output
	Dull           bool // its log is not worth showing when the test has failed

	t     testing.TB // whose it is; nil before Own
	cmd   *exec.Cmd
	gone  chan struct{}
	ended time.Time // valid once gone is closed
}

// Output keeps what a process writes.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the output.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String is all that was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
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

// steering are the variables that would steer a daemon from outside.
var steering = []string{
	"REDIS_URL", "REDIS_PROVIDER", "APP_ENV", "RAILS_ENV", "RACK_ENV", "RAILS_MAX_THREADS",
	"DYNO", "NOTIFY_SOCKET", "DEBUG_INVOCATION",
}

// Launch starts cmd. Its environment is this process's own without what would
// steer a daemon, and env over it. A Stdout that cmd has already is left to it.
func Launch(name string, cmd *exec.Cmd, env ...string) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, gone: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.Stdout
	}
	cmd.Stderr = &p.Stderr
	cmd.WaitDelay = time.Second
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(steering, name)
	}), env...)
	cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // else the race detector sleeps a second at the end
	cmd.SysProcAttr = dieWithParent()
	errc := make(chan error)
	starts() <- func() { errc <- cmd.Start() }
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

// Start launches a process of the test's own.
func Start(t testing.TB, name string, cmd *exec.Cmd, env ...string) *Process {
	t.Helper()
	p, err := Launch(name, cmd, env...)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return p.Own(t)
}

// Own ties a process to a test: it is killed at the test's end, shown if the
// test failed, and makes it fail if the race detector has found something in it.
// Methods that can fail need it.
func (p *Process) Own(t testing.TB) *Process {
	p.t = t
	t.Cleanup(func() {
		p.Kill()
		if text := p.Stderr.String(); strings.Contains(text, "WARNING: DATA RACE") {
			t.Errorf("%s: data race\n%s", p.Name, Tail(text, 20_000))
		} else if t.Failed() && !p.Dull {
			t.Logf("--- %s, end of its stderr:\n%s--- its stdout:\n%s", p.Name, Tail(Brief(text), 12_000), Tail(p.Stdout.String(), 4000))
		}
	})
	return p
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends s; a process that has ended does not mind.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %s: %v", p.Name, err)
	}
}

// Kill ends the process with SIGKILL and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// Running tells whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.gone:
		return false
	default:
		return true
	}
}

// Exit waits for the end of the process and returns its exit code.
func (p *Process) Exit(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.gone:
	case <-time.After(limit):
		p.t.Fatalf("%s did not end within %s", p.Name, limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Ended is when the process ended; call it after Exit.
func (p *Process) Ended() time.Time {
	<-p.gone
	return p.ended
}

// Stop sends TERM and wants exit code 0. It returns the time that the stop took.
func (p *Process) Stop(limit time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	if code := p.Exit(limit); code != 0 {
		p.t.Errorf("%s: exit code %d after TERM, want 0", p.Name, code)
	}
	return p.ended.Sub(began)
}

// CPU is the time that the process has spent on a processor so far (Linux).
func (p *Process) CPU() time.Duration {
	p.t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "stat"))
	if err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
	// pid (name) state …: utime and stime are fields 14 and 15, in ticks of 10 ms
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
