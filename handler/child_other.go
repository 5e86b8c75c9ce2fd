//go:build !unix

package handler

import (
	"os/exec"
	"syscall"

	"github.com/rs/zerolog"
)

// startChild starts cmd. There are no process groups here: only the program
// itself is ended, and at once.
func startChild(cmd *exec.Cmd, _ zerolog.Logger) (*child, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := newChild(cmd)
	go func() {
		_ = cmd.Wait()
		c.mu.Lock()
		c.over = true
		c.mu.Unlock()
		close(c.gone)
	}()
	return c, nil
}

func (c *child) send(syscall.Signal) { _ = c.cmd.Process.Kill() }
