//go:build unix

package handler

import (
	"sync"
	"syscall"
)

// firstInherited is the first descriptor after stdin, stdout and stderr.
const firstInherited = 3

// keepDescriptors makes sure that the programs of jobs inherit three descriptors and no more. Go passes on none that it
// has opened, but all that this process has inherited from a shell or a service manager.
var keepDescriptors = sync.OnceFunc(markInherited)

// markEach marks the first descriptors one by one: an inherited one has a small number.
func markEach() {
	for fd := firstInherited; fd < 1<<12; fd++ {
		syscall.CloseOnExec(fd)
	}
}
