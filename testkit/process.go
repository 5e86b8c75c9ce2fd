package testkit

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

	"github.com/troupehq/troupe/internal/ossignal"
)

// Process is a program that a test has started: a daemon, of troupe or of one's
// own, to be killed, paused, stopped and read. It never outlives the test, nor
// the test binary (Linux: not even when that is killed).
type Process struct {
	Name           string
	Stdout, Stderr ProcessOutput
	Dull           bool // its log is not worth showing when the test has failed

	t     testing.TB // whose it is; nil before Own
	cmd   *exec.Cmd
	gone  chan struct{}
	ended time.Time // valid once gone is closed
}

// ProcessOutput keeps what a process writes.
type ProcessOutput struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the output.
func (o *ProcessOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String is all that was written so far.
func (o *ProcessOutput) String() string {
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

// StartProcess starts cmd and ties it to the test: it is killed at the test's
// end, its output is shown if the test failed, and the test fails if the race
// detector has found something in it. Its environment is that of cmd, or if there
// is none this process's own without the variables that would steer a daemon
// (REDIS_URL and the like), and env over it. A Stdout that cmd has already is
// left to it.
//
// A test binary can be its own daemon, whose code is then that under test:
//
//	func TestMain(m *testing.M) {
//		if url := os.Getenv("SHOP_WORKER"); url != "" {
//			os.Exit(actors.Main(config(url)))
//		}
//		os.Exit(m.Run())
//	}
//
//	p := testkit.StartProcess(t, "worker", exec.Command(os.Args[0]), "SHOP_WORKER="+url)
//	p.Ready()
//	p.Kill()
func StartProcess(t testing.TB, name string, cmd *exec.Cmd, env ...string) *Process {
	t.Helper()
	p, err := LaunchProcess(name, cmd, env...)
	if err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	return p.Own(t)
}

// LaunchProcess starts a process that several tests share. It ends with the test
// binary, or with the test that it is given to with Own; before that the methods
// that can fail a test must not be called.
func LaunchProcess(name string, cmd *exec.Cmd, env ...string) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, gone: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.Stdout
	}
	cmd.Stderr = &p.Stderr
	cmd.WaitDelay = time.Second
	base := cmd.Env
	if base == nil {
		base = slices.DeleteFunc(os.Environ(), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return slices.Contains(steering, name)
		})
	}
	cmd.Env = append(slices.Clip(base), env...)
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

// Own ties a process to a test, as StartProcess does.
func (p *Process) Own(t testing.TB) *Process {
	p.t = t
	t.Cleanup(func() {
		p.Kill()
		if text := p.Stderr.String(); strings.Contains(text, "WARNING: DATA RACE") {
			t.Errorf("%s: data race\n%s", p.Name, tail(text, 20_000))
		} else if t.Failed() && !p.Dull {
			t.Logf("--- %s, end of its stderr:\n%s--- its stdout:\n%s", p.Name, tail(brief(text), 12_000), tail(p.Stdout.String(), 4000))
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

// Pause stops the process where it is (SIGSTOP): nothing of it runs until Resume,
// while the world goes on. A suspended machine, or a very long garbage collection.
func (p *Process) Pause() {
	p.t.Helper()
	p.Signal(ossignal.Pause)
	Await(p.t, soon, p.Name+" stands still", func() bool {
		fields, err := p.stat()
		return err != nil || fields[0] == "T" || !p.Running() // without /proc the signal has to do
	})
}

// Resume ends Pause.
func (p *Process) Resume() {
	p.t.Helper()
	p.Signal(ossignal.Resume)
}

// Term asks the process to end (SIGTERM); Exit waits for it.
func (p *Process) Term() {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
}

// Kill ends the process with SIGKILL, a paused one too, and waits for its end.
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

// Ended is when the process ended; it waits for that.
func (p *Process) Ended() time.Time {
	<-p.gone
	return p.ended
}

// Stop sends TERM and wants exit code 0. It returns the time that the stop took.
func (p *Process) Stop(limit time.Duration) time.Duration {
	p.t.Helper()
	began := time.Now()
	p.Term()
	if code := p.Exit(limit); code != 0 {
		p.t.Errorf("%s: exit code %d after TERM, want 0", p.Name, code)
	}
	return p.ended.Sub(began)
}

// CPU is the time that the process has spent on a processor so far (Linux).
func (p *Process) CPU() time.Duration {
	p.t.Helper()
	fields, err := p.stat()
	if err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // they are ticks
}

// stat are the fields of /proc/PID/stat from the state on: what is before it is
// the name, which may have blanks.
func (p *Process) stat() ([]string, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "stat"))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])), nil
}
