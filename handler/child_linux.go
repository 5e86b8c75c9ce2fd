package handler

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// inGroup has a parent death signal for the case that the guard dies with us. The
// kernel drops it if the program is setuid or has file capabilities.
func inGroup(pgid int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: pgid, Pdeathsig: syscall.SIGKILL}
}

// wait returns when the program has ended and its group has got KILL. Until then
// neither the program nor the first guard is reaped, so that they keep their ids:
// nobody else can be hit.
func (c *child) wait() {
	exited(c.cmd.Process)
	c.ended()
	_ = c.cmd.Wait() // ProcessState tells all; pipe errors are harmless
}

// exited returns when p has ended. It does not reap it.
func exited(p *os.Process) {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
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
