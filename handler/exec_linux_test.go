package handler

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// The scripts hold a fifo, $1, open; its end tells that all of their processes
// are gone, zombies or not.
func TestChildrenDieWithAKilledDaemon(t *testing.T) {
	tests := map[string]string{ // as handlers do, they read the job first
		"program":                        `read _; trap '' TERM HUP INT; exec 7>"$1"; echo up >&7; while :; do sleep 0.05; done`,
		"program that closes everything": `TROUPE_TEST_CLOSER="$1" exec "$2"`,
		"program of a script":            `read _; sh -c 'trap "" TERM HUP INT; exec 7>"$1"; echo up >&7; while :; do sleep 0.05; done' sh "$1"; exit 0`,
		"background of a background":     `read _; (sh -c 'trap "" TERM HUP INT; exec 7>"$1"; echo up >&7; exec sleep 1000' sh "$1" & wait) & wait`,
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			fifo, up, end := pipe(t)
			daemon := daemonCmd(t, 1, "sh", "-c", script, "sh", fifo, os.Args[0])
			harness.OK(t, daemon.Start())
			if got := within(t, up, "start"); got != "up" {
				t.Fatal(got)
			}
			harness.OK(t, daemon.Process.Kill())
			_ = daemon.Wait()
			ends(t, end)
		})
	}
}

func TestAGuardThatIsKilledIsReplaced(t *testing.T) {
	d := startDaemon(t, 1, languages[0].argv...)
	pgid := d.groups(t)[0]
	first := awaitGuard(t, pgid, 0)
	harness.OK(t, syscall.Kill(first, syscall.SIGKILL))
	awaitGuard(t, pgid, first)
	d.die(t, syscall.SIGKILL)
	if !groupEnds(pgid) {
		t.Error("something of the job is still alive")
		_ = syscall.Kill(-pgid, syscall.SIGKILL)
	}
}

// The program itself does, what it has started would live on.
func TestAProgramDiesWithItsDaemonAndItsGuard(t *testing.T) {
	fifo, up, end := pipe(t)
	daemon := daemonCmd(t, 1, "sh", "-c", `exec 7>"$1"; echo $$ >&7; exec sleep 7777`, "sh", fifo)
	harness.OK(t, daemon.Start())
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	program := harness.Must(strconv.Atoi(within(t, up, "start")))(t)
	pgid := harness.Must(syscall.Getpgid(program))(t)
	guard := awaitGuard(t, pgid, 0)
	if err := daemon.Process.Signal(syscall.SIGSTOP); err != nil { // it starts no other guard
		t.Fatal(err)
	}
	harness.OK(t, syscall.Kill(guard, syscall.SIGKILL))
	harness.OK(t, daemon.Process.Kill())
	ends(t, end)
}

// awaitGuard returns the guard of a process group once there is one other than
// before.
func awaitGuard(t *testing.T, pgid, before int) (pid int) {
	t.Helper()
	harness.Await(t, fmt.Sprintf("process group %d has a guard, not %d", pgid, before), func() bool {
		for _, name := range harness.Must(filepath.Glob("/proc/[0-9]*/cmdline"))(t) {
			if text, _ := os.ReadFile(name); !strings.HasSuffix(string(text), "\x00troupe-guard\x00") {
				continue
			}
			pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if of, err := syscall.Getpgid(pid); err == nil && of == pgid && pid != before {
				return true
			}
		}
		return false
	})
	return pid
}
