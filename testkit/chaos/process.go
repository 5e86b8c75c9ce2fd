package chaos

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
)

// Process is a program that a test has started: a daemon, of troupe or of one's
// own, to be killed, paused, stopped and read. It never outlives the test, nor
// the test binary (Linux: not even when that is killed).
type Process struct {
	Name string
	Dull bool // its log is not worth showing when the test has failed

	tb             testing.TB
	cmd            *exec.Cmd
	stdout, stderr harness.Buffer
	gone           chan struct{}
	ended          time.Time // valid once gone is closed
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

// Launch starts cmd and ties it to the test: it is killed at the test's end, its
// output is shown if the test failed, and the test fails if the race detector has
// found something in it. Its environment is that of cmd, or if there is none this
// process's own without the variables that would steer a daemon (REDIS_URL and the
// like), and env over it. A Stdout that cmd has already is left to it.
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
//	p := chaos.Launch(t, "worker", exec.Command(os.Args[0]), "SHOP_WORKER="+url)
//	p.Ready()
//	p.Kill()
func Launch(tb testing.TB, name string, cmd *exec.Cmd, env ...string) *Process {
	tb.Helper()
	p := &Process{Name: name, tb: tb, cmd: cmd, gone: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = &p.stdout
	}
	cmd.Stderr = &p.stderr
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
		tb.Fatalf("launch %s: %v", name, err)
	}
	go func() {
		_ = cmd.Wait()
		p.ended = time.Now()
		close(p.gone)
	}()
	tb.Cleanup(p.end)
	return p
}

// end is called at the end of the test.
func (p *Process) end() {
	p.tb.Helper()
	p.Kill()
	if text := p.Stderr(); strings.Contains(text, "WARNING: DATA RACE") {
		p.tb.Errorf("%s: data race\n%s", p.Name, tail(text, 20_000))
	} else if p.tb.Failed() && !p.Dull {
		p.tb.Logf("--- %s, end of its stderr:\n%s--- its stdout:\n%s", p.Name, tail(brief(text), 12_000), tail(p.Stdout(), 4000))
	}
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends s. It does nothing if the process has ended.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.tb.Errorf("signal %s: %v", p.Name, err)
	}
}

// Pause stops the process where it is (SIGSTOP): nothing of it runs until Resume,
// as on a suspended machine or in a very long garbage collection.
func (p *Process) Pause() {
	p.tb.Helper()
	p.Signal(osproc.Pause)
	testkit.Await(p.tb, p.Name+" stands still", func() bool {
		fields, err := harness.Stat(p.PID())
		return err != nil || fields[0] == "T" || !p.Running() // without /proc the signal has to do
	})
}

// Resume ends Pause.
func (p *Process) Resume() {
	p.tb.Helper()
	p.Signal(osproc.Resume)
}

// Kill ends the process with SIGKILL, a paused one too, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.gone
}

// Running reports whether the process has not ended.
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
	p.tb.Helper()
	select {
	case <-p.gone:
	case <-time.After(limit):
		p.tb.Fatalf("%s did not end within %s", p.Name, limit)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Ended waits for the end of the process and returns its time.
func (p *Process) Ended() time.Time {
	<-p.gone
	return p.ended
}

// Stop sends TERM and wants exit code 0. It returns the time that the stop took.
func (p *Process) Stop(limit time.Duration) time.Duration {
	p.tb.Helper()
	began := time.Now()
	p.Signal(syscall.SIGTERM)
	if code := p.Exit(limit); code != 0 {
		p.tb.Errorf("%s: exit code %d after TERM, want 0", p.Name, code)
	}
	return p.ended.Sub(began)
}
