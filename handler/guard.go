//go:build unix

package handler

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
)

// guardScript waits for the end of its stdin, the lifeline, and then kills its own
// process group, which kill names by 0. As long as the guard is a member of that
// group, the system does not give the group's id to another group. So the guard
// cannot kill a foreign process, however late it runs.
//
// It ignores the signals that are sent to the group for the program.
const guardScript = `trap "" HUP INT QUIT TERM USR1 USR2 ALRM TSTP TTIN TTOU; read x; kill -s KILL 0`

const (
	guardShell = "/bin/sh"
	// guardPause is the wait before the next guard is started, when guards end
	// as soon as they are started.
	guardPause = time.Second
)

// lifeline makes the pipe that all guards share, whose reading end is their stdin.
// This process has the only writing end and writes nothing: the pipe ends with
// this process, whatever ends that. Programs do not inherit the writing end.
var lifeline = sync.OnceValues(func() (pipeEnds, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return pipeEnds{}, fmt.Errorf("open the pipe of the guards: %w", err)
	}
	// The guards share the flags of the pipe, and a shell's read has to wait.
	return pipeEnds{r: r, w: w}, syscall.SetNonblock(int(r.Fd()), false)
})

type pipeEnds struct {
	r, w *os.File // w is kept: one that is collected is closed
}

// startGuard starts a guard in the process group pgid, 0 for a new one, that it
// leads. It has no parent death signal, which would come before the guard has
// killed its group.
func startGuard(pgid int) (*os.Process, error) {
	pipe, err := lifeline()
	if err != nil {
		return nil, err
	}
	return startGuardOf(pgid, pipe.r)
}

func startGuardOf(pgid int, stdin *os.File) (*os.Process, error) {
	p, err := os.StartProcess(guardShell, []string{"sh", "-c", guardScript, "troupe-guard"}, &os.ProcAttr{
		Dir: "/", Env: []string{}, Files: []*os.File{stdin},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pgid: pgid},
	})
	if err != nil {
		return nil, fmt.Errorf("start the guard of the program: %w", err)
	}
	return p, nil
}

// watch starts another guard when one has ended, until the group is killed.
func (c *child) watch(log zerolog.Logger) {
	exited(c.leader)
	for {
		began := time.Now()
		c.mu.Lock()
		if c.isKilled() {
			c.mu.Unlock()
			return
		}
		p, err := startGuard(c.pgid)
		c.mu.Unlock()
		log.Warn().Err(err).Msg("the guard of a job's processes has ended, another is started")
		if err == nil {
			_, _ = p.Wait()
		}
		select {
		case <-c.killed:
			return
		case <-time.After(time.Until(began.Add(guardPause))):
		}
	}
}
