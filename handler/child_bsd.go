//go:build unix && !linux

package handler

import (
	"os"
	"syscall"
)

// inGroup has no parent death signal: these systems have none.
func inGroup(pgid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: pgid}
}

// wait returns when the program has ended and its group has got KILL. The
// program is reaped before that, since waiting without reaping is not portable.
// From then on the guard keeps the id of the group in use.
func (c *child) wait() {
	_ = c.cmd.Wait() // ProcessState tells all; pipe errors are harmless
	c.ended()
}

// exited returns when p has ended, and reaps it.
func exited(p *os.Process) { _, _ = p.Wait() }

// onlyZombies cannot be told here: the system's process 1 reaps them soon.
func onlyZombies(int) bool { return false }
