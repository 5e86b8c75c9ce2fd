//go:build unix

package osproc

import "syscall"

// See the comment of the package.
const (
	Reload = syscall.SIGHUP
	Quiet  = syscall.SIGTSTP
	Dump   = syscall.SIGTTIN
	Pause  = syscall.SIGSTOP
	Resume = syscall.SIGCONT
)
