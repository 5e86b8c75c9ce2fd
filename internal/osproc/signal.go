// Package osproc has what a process of ours asks of its system: signals, the size of its
// heap, its number and its goroutines.
//
// It names the signals that only Unix has, so that what uses them builds on Windows, too.
// There nobody can send them.
//
//	Quiet    SIGTSTP: take no new jobs
//	Dump     SIGTTIN: log the tree and all stacks
//	Pause    SIGSTOP: a test stops a process where it is
//	Resume   SIGCONT: and lets it go on
//
// SIGTERM and os.Interrupt are everywhere: Windows sends SIGTERM when a console
// is closed, at a logoff and at a shutdown, and os.Interrupt for Ctrl-C and
// Ctrl-Break.
package osproc

import (
	"os"
	"os/signal"
	"syscall"
)

// GoOnWithoutReaders has a write to a stdout or stderr that nobody reads any more fail with EPIPE, in this process and
// from now on: Go otherwise ends the process, even one that was started with SIGPIPE ignored. The programs
// that it starts keep the default of SIGPIPE, unlike after signal.Ignore.
func GoOnWithoutReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
