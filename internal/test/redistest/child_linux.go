package redistest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// childAttr makes the server die with the test binary.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// startOnThread starts cmd from a thread that lives as long as the process: the
// death signal is tied to the starting thread, not to the process.
func startOnThread(cmd *exec.Cmd) error {
	errc := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		errc <- cmd.Start()
		select {} // keeps the thread
	}()
	return <-errc
}
