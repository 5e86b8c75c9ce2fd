package reap

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupehq/troupe/internal/test/harness"
)

func TestOrphansAreReapedAndNoStatusIsTaken(t *testing.T) {
	harness.OK(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	harness.OK(t, Start(ctx))
	shell := func(script string) *exec.Cmd { return exec.CommandContext(t.Context(), "sh", "-c", script) }
	status := func(what string, err error) {
		t.Helper()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
			t.Errorf("%s: %v, expected exit status 7", what, err)
		}
	}

	// it is waited for long after its end
	late := shell("exit 7")
	harness.OK(t, late.Start())
	// nobody waits for it any more
	released := harness.Must(os.StartProcess("/bin/sh", []string{"sh", "-c", "exit 7"}, &os.ProcAttr{}))(t)
	gone := released.Pid
	harness.OK(t, released.Release())
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 40 {
				status("with orphans", shell(`(sleep 0.2 &); (setsid sh -c "sleep 0.5" &); exit 7`).Run())
				pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", "exit 7"}, &syscall.ProcAttr{}) // not by package os
				if err != nil {
					t.Error(err)
					return
				}
				var w syscall.WaitStatus
				if _, err := syscall.Wait4(pid, &w, 0, nil); err != nil || w.ExitStatus() != 7 {
					t.Errorf("without package os: %v, %v", w.ExitStatus(), err)
				}
			}
		})
	}
	all.Wait()
	if !harness.Within(time.Minute, func() bool { return len(children(os.Getpid())) <= 1 }) {
		t.Errorf("orphans stay: %v", children(os.Getpid()))
	}
	if err := syscall.Kill(gone, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the one that was released: %v", err)
	}
	status("after its end", late.Wait())
}

func TestOtherProcessesReapNothing(t *testing.T) {
	harness.OK(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
	if os.Getpid() != 1 && inherits() {
		t.Error("orphans are not ours")
	}
}
