// Package proc starts processes that die with this one, and tells from outside
// what they use.
package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a running child. What it writes goes to a file, as it would in
// production.
type Process struct {
	cmd  *exec.Cmd
	out  string
	done chan struct{}
}

// Start starts cmd with its output in dir/name.out.
func Start(cmd *exec.Cmd, dir, name string) (*Process, error) {
	p := &Process{cmd: cmd, out: filepath.Join(dir, name+".out"), done: make(chan struct{})}
	f, err := os.OpenFile(p.out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	cmd.Stdout, cmd.Stderr = f, f
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := startOnThread(cmd); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait(); close(p.done) }()
	return p, nil
}

type start struct {
	cmd *exec.Cmd
	err chan error
}

// starts leads to the one thread that starts all children: the death signal is
// tied to the starting thread, which must live as long as this process.
var starts = sync.OnceValue(func() chan start {
	c := make(chan start)
	go func() {
		runtime.LockOSThread()
		for s := range c {
			s.err <- s.cmd.Start()
		}
	}()
	return c
})

func startOnThread(cmd *exec.Cmd) error {
	s := start{cmd, make(chan error)}
	starts() <- s
	return <-s.err
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Kill ends the process and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Stop sends sig and waits; after d it kills.
func (p *Process) Stop(sig os.Signal, d time.Duration) {
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(d):
		p.Kill()
	}
}

// Ended returns an error that shows the last lines of a process that has ended,
// nil while it runs.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %s: %s", filepath.Base(p.cmd.Path), p.cmd.ProcessState, p.Tail())
	default:
		return nil
	}
}

// Tail is the end of what the process wrote.
func (p *Process) Tail() string {
	out, _ := os.ReadFile(p.out)
	return string(out[max(0, len(out)-2000):])
}
