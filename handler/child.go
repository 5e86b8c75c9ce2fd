package handler

import (
	"os/exec"
	"sync"
	"syscall"
)

// child is a running program and, where the system has them, its process group.
type child struct {
	cmd  *exec.Cmd
	gone chan struct{} // closed when program and group are gone and all output is read

	mu   sync.Mutex
	over bool // the program has exited: its id may soon be somebody else's
}

// signal sends sig to the whole group and reports whether the program still ran.
func (c *child) signal(sig syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	signalGroup(c.cmd.Process, sig)
	return true
}

// ended kills what is left of the group; signal does nothing from then on.
func (c *child) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	signalGroup(c.cmd.Process, syscall.SIGKILL)
	c.over = true
}
