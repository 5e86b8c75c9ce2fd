package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// CPU is the processor time that all threads of a process have used, the ended
// ones included, in nanoseconds' precision; 0 if there is no such process.
func CPU(pid int) time.Duration {
	const perProcess = 2 // CPUCLOCK_SCHED of the whole process
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|perProcess), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// PeakRSS is the most memory a process has had resident, in bytes.
func PeakRSS(pid int) int64 { return status(pid, "VmHWM:") }

// RSS is the memory that a process has resident now, in bytes.
func RSS(pid int) int64 { return status(pid, "VmRSS:") }

func status(pid int, field string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
			kb, _ := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return kb * 1024
		}
	}
	return 0
}

// Family is a process and its children.
func Family(pid int) []int {
	pids := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for word := range bytes.FieldsSeq(text) {
			if child, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
