//go:build unix

package handler

import (
	"os"
	"syscall"
	"time"
)

const (
	groupPoll  = time.Millisecond
	groupLimit = time.Second
)

func signalGroup(p *os.Process, sig syscall.Signal) { _ = syscall.Kill(-p.Pid, sig) }

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
