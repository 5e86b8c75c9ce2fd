package reap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// look is how often there is a look for orphans, and how long they stay at least.
const look = time.Second

// Start reaps orphans until ctx ends, if they become children of this process. It returns an error if it cannot reap them.
func Start(ctx context.Context) error {
	if !inherits() {
		return nil
	}
	if err := check(); err != nil {
		return err
	}
	go func() {
		t := time.NewTicker(look)
		defer t.Stop()
		for seen := map[int]string(nil); ; {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				seen = again(seen)
			}
		}
	}()
	return nil
}

var subreaper int32 // the system writes it

// inherits tells whether orphans become children of this process.
func inherits() bool {
	_ = unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0)
	return os.Getpid() == 1 || subreaper != 0
}

// check tells why orphans cannot be known from other children here: /proc is that of other processes, or package os
// has no descriptors of processes (Linux before 5.4).
func check() error {
	if self, _ := os.Readlink("/proc/self"); self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc/self is %q, expected process %d", self, os.Getpid())
	}
	p, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	owned, err := owned()
	if err == nil && !owned[os.Getpid()] {
		err = errors.New("the system has no descriptors of processes")
	}
	return err
}

// again reaps those of seen that are still dead and have no owner, and returns who is dead now, with the instant of its
// start: an id may be given to another process.
func again(seen map[int]string) (now map[int]string) {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err != nil || info.Signo == 0 {
		return nil // no child, or none that is dead
	}
	now = map[int]string{}
	var stayed []int
	for pid, c := range children(os.Getpid()) {
		if c.state != "Z" {
			continue
		}
		if now[pid] = c.born; seen[pid] == c.born {
			stayed = append(stayed, pid)
		}
	}
	if len(stayed) == 0 {
		return now
	}
	// Whoever is reaped by its owner meanwhile has an id that another child could get. None is started
	// between the look for the owners and the reaping.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	owned, err := owned()
	if err != nil {
		return now
	}
	for _, pid := range stayed {
		if !owned[pid] {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
	return now
}

// child is a process: its state, which is Z if it is dead, and the time of its start.
type child struct{ state, born string }

// children are those of a process, with those that are dead and not reaped.
func children(parent int) map[int]child {
	all := map[int]child{}
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it was reaped
		}
		// pid (name) state ppid …, where name may hold anything; the start is field 22
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 20 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			all[pid] = child{fields[0], fields[19]}
		}
	}
	return all
}

// owned are the processes of which this one has a descriptor.
func owned() (map[int]bool, error) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	all := map[int]bool{}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err != nil || !strings.Contains(to, "pidfd") {
			continue // it is closed, or another one
		}
		text, err := os.ReadFile("/proc/self/fdinfo/" + e.Name())
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "Pid:"); ok {
				pid, err := strconv.Atoi(strings.TrimSpace(value))
				if err != nil {
					return nil, err
				}
				all[pid] = true
			}
		}
	}
	return all, nil
}
