//go:build !unix

package handler

import (
	"os"
	"os/exec"
	"syscall"
)

// startChild starts cmd. There are no process groups here: only the program
// itself is ended, and at once.
func startChild(cmd *exec.Cmd) (*child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, gone: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
		close(c.gone)
	}()
	return c, nil
}

func signalGroup(p *os.Process, _ syscall.Signal) { _ = p.Kill() }
