//go:build unix

package handler

import (
	"errors"
	"io/fs"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

const (
	groupPoll  = time.Millisecond
	groupLimit = time.Second
)

var noShell sync.Once

// startChild starts cmd in a process group that does not outlive this process,
// whatever kills it, so that the job's next run cannot overlap this one.
//
// The group is there before the program: its leader is a guard, a shell that
// waits for the end of a pipe whose only writing end is ours and then kills the
// group that it is in. It works in whatever order the processes of the job die,
// and whichever descriptors they have closed. A guard that has been
// killed is replaced while we live. If it is killed together with us, the program
// still has its parent death signal (Linux), but what it has started lives on.
//
// The program is not the leader itself, because a guard could join its group only
// when the program runs, which might be too late.
//
// Processes that leave the group (setsid, setpgid), and those that another user
// runs (sudo), are left to systemd's control group or the end of the container.
// A program that leaves the group still gets all signals while this process lives.
func startChild(cmd *exec.Cmd, log zerolog.Logger) (*child, error) {
	keepDescriptors()
	c := newChild(cmd)
	started := make(chan error)
	go func() {
		// The parent death signal is that of the thread that has started the
		// program, which therefore stays until the program has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.start(log)
		started <- err
		if err != nil {
			return
		}
		c.wait()
		c.closeGroup()
		close(c.gone)
	}()
	return c, <-started
}

func (c *child) start(log zerolog.Logger) error {
	switch leader, err := startGuard(0); {
	case err == nil:
		c.leader, c.pgid = leader, leader.Pid
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		noShell.Do(func() {
			log.Warn().Err(err).Msg("what the programs of jobs start may outlive this process: there is no shell to guard it")
		})
	default:
		return err
	}
	c.cmd.SysProcAttr = inGroup(c.pgid)
	if err := c.cmd.Start(); err != nil {
		c.ended()
		c.closeGroup()
		return err
	}
	if c.leader == nil {
		c.pgid = c.cmd.Process.Pid
		return nil
	}
	c.watcher.Go(func() { c.watch(log) })
	return nil
}

// send signals the group. If the program has left the group, it signals the program as well,
// or the whole new group if the program leads one.
func (c *child) send(sig syscall.Signal) {
	if sig == syscall.SIGKILL && !c.isKilled() {
		close(c.killed)
	}
	if c.pgid > 0 {
		_ = syscall.Kill(-c.pgid, sig)
	}
	if c.cmd.Process == nil || c.cmd.Process.Signal(syscall.Signal(0)) != nil {
		return // not started, or reaped
	}
	switch pid := c.cmd.Process.Pid; c.leftFor() {
	case 0:
	case pid:
		_ = syscall.Kill(-pid, sig)
	default:
		_ = syscall.Kill(pid, sig)
	}
}

// leftFor returns the group that the program is in if it is not ours, else 0.
func (c *child) leftFor() (pgid int) {
	pgid, err := syscall.Getpgid(c.cmd.Process.Pid)
	if err != nil || pgid == c.pgid {
		return 0
	}
	return pgid
}

// closeGroup returns when no process of the killed group runs any more. It reaps the
// leader, which frees the id of the group.
func (c *child) closeGroup() {
	c.watcher.Wait()
	if c.leader != nil {
		_, _ = c.leader.Wait()
	}
	if c.pgid > 0 {
		awaitGroup(c.pgid)
	}
}

// awaitGroup returns when no process of the killed group pgid runs any more: the
// program has been reaped, others may need a moment. It gives up after
// groupLimit, as a process that waits for a disk cannot be killed. There is no
// event for the end of processes that are not our children, hence the polling.
func awaitGroup(pgid int) {
	deadline := time.Now().Add(groupLimit)
	for {
		// As process 1 of a container we are the one who must reap them.
		_, _ = syscall.Wait4(-pgid, nil, syscall.WNOHANG, nil)
		if syscall.Kill(-pgid, 0) == syscall.ESRCH || time.Now().After(deadline) {
			return
		}
		<-time.After(groupPoll)
		if onlyZombies(pgid) {
			return
		}
	}
}
