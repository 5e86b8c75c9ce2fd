//go:build unix

package ossignal

import "syscall"

// See the comment of the package.
const (
	Quiet  = syscall.SIGTSTP
	Dump   = syscall.SIGTTIN
	Pause  = syscall.SIGSTOP
	Resume = syscall.SIGCONT
)
