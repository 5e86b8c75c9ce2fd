package handler

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// child is a running program and, where the system has them, its process group.
type child struct {
	cmd    *exec.Cmd
	gone   chan struct{} // closed when program and group are gone and all output is read
	killed chan struct{} // closed when the group gets KILL

	pgid    int            // of the group
	leader  *os.Process    // of the group, its first guard; nil for none: then the program is
	watcher sync.WaitGroup // replaces guards, ends after killed

	mu   sync.Mutex
	over bool // the program has exited: its id may soon be somebody else's
}

func newChild(cmd *exec.Cmd) *child {
	return &child{cmd: cmd, gone: make(chan struct{}), killed: make(chan struct{})}
}

// signal sends sig to all of the job's processes and reports whether the program
// still ran.
func (c *child) signal(sig syscall.Signal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return false
	}
	c.send(sig)
	return true
}

// ended kills what is left of the job; signal does nothing from then on.
func (c *child) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send(syscall.SIGKILL)
	c.over = true
}

func (c *child) isKilled() bool {
	select {
	case <-c.killed:
		return true
	default:
		return false
	}
}
