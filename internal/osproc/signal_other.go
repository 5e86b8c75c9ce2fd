//go:build !unix

package osproc

import "syscall"

// No system sends or takes these numbers: signal.Notify ignores them, and
// os.Process.Signal answers with an error.
const (
	Reload = syscall.Signal(-5)
	Quiet  = syscall.Signal(-1)
	Dump   = syscall.Signal(-2)
	Pause  = syscall.Signal(-3)
	Resume = syscall.Signal(-4)
)
