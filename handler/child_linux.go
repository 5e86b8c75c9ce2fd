package handler

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// lifelineFD is the descriptor of the lifeline in the program: above the single
// digits that shell scripts use.
const lifelineFD = 10

// startChild starts cmd as the leader of a process group that dies with this
// process, whatever kills it, so that the job's next run cannot overlap this one.
//
// The program itself is covered by its parent death signal. The kernel ties
// that to the thread that started the program, hence the locked thread, which
// has nothing to do but wait for it; and clears it if the program is setuid or
// has file capabilities. It is not inherited: the programs that a shell script
// starts would live on.
//
// These are covered by the lifeline, a pipe whose only writing end is ours. The
// group inherits the reading end, set up (F_SETOWN, F_SETSIG, O_ASYNC) to send
// KILL to the group when the pipe changes, which it only does when we are gone.
// So all of the group dies, unless each member has closed that descriptor.
// The pipe can only be set up when the group exists, that is, the program runs:
// stdin is held back until then, so that no program which reads its job first
// has started another one by that time.
// Why not a supervising process between us and the program: a library cannot
// re-execute its user's binary, and that process would have to be guarded itself.
// Why not PR_SET_CHILD_SUBREAPER: it adopts orphans, but only while we live.
// Processes that leave the group (setsid) are left to systemd's control group
// or the end of the container.
func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, gone: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		lifeline, err := startGroup(cmd)
		started <- err
		if err != nil {
			return
		}
		// Not reaped yet, the program keeps its id: the group can be killed
		// without hitting anybody else.
		awaitExit(cmd.Process.Pid)
		c.ended()
		_ = cmd.Wait() // ProcessState tells all; pipe errors are harmless
		awaitGroup(cmd.Process.Pid)
		if lifeline != nil {
			_ = lifeline.Close()
		}
		close(c.gone)
	}()
	return c, <-started
}

// startGroup returns our end of the lifeline, nil if there is none: then the
// parent death signal has to do.
func startGroup(cmd *exec.Cmd) (*os.File, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, cmd.Start()
	}
	defer func() { _ = r.Close() }()
	cmd.ExtraFiles = make([]*os.File, lifelineFD-2)
	cmd.ExtraFiles[lifelineFD-3] = r
	stdin := &gate{open: make(chan struct{}), r: cmd.Stdin}
	cmd.Stdin = stdin
	if err := cmd.Start(); err != nil {
		_ = w.Close()
		return nil, err
	}
	defer close(stdin.open)
	fd := r.Fd()
	flags, _ := unix.FcntlInt(fd, unix.F_GETFL, 0)
	_, _ = unix.FcntlInt(fd, unix.F_SETOWN, -cmd.Process.Pid)
	_, _ = unix.FcntlInt(fd, unix.F_SETSIG, int(unix.SIGKILL))
	_, _ = unix.FcntlInt(fd, unix.F_SETFL, flags|unix.O_ASYNC)
	return w, nil
}

// gate is a reader that can be read when it is open.
type gate struct {
	open chan struct{}
	r    io.Reader
}

func (g *gate) Read(p []byte) (int, error) {
	<-g.open
	return g.r.Read(p)
}

func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// onlyZombies reports whether nothing in the group runs any more, though it
// still exists: many containers have a process 1 that never reaps.
func onlyZombies(pgid int) bool {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // has ended
		}
		// pid (name) state ppid pgrp …, where name may hold anything
		var state string
		var ppid, pgrp int
		rest := b[bytes.LastIndexByte(b, ')')+1:]
		if _, err := fmt.Sscan(string(rest), &state, &ppid, &pgrp); err != nil {
			return false
		}
		if pgrp == pgid && state != "Z" && state != "X" {
			return false
		}
	}
	return len(stats) > 0
}
