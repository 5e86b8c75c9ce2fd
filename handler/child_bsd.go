//go:build unix && !linux

package handler

import (
	"os/exec"
	"syscall"
)

// startChild starts cmd as the leader of a process group. These systems have no
// parent death signal: a program outlives a daemon that is killed.
func startChild(cmd *exec.Cmd) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, gone: make(chan struct{})}
	go func() {
		// Wait reaps before the group is killed: for that moment its number may
		// in theory go to somebody else, since waiting without reaping is not
		// portable.
		_ = cmd.Wait()
		c.ended()
		awaitGroup(cmd.Process.Pid)
		close(c.gone)
	}()
	return c, nil
}

// onlyZombies cannot be told here: the system's process 1 reaps them soon.
func onlyZombies(int) bool { return false }
