//go:build unix

package handler

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

var tries = flag.Int("exec.tries", 3, "how many daemons TestNothingOfAJobOutlivesItsDaemon kills for each language")

// grandchild is a shell script. It tells its process id to the fifo $1, and does
// not end by itself.
const grandchild = `trap "" TERM HUP INT; echo "$$" >"$1"; exec sleep 7777`

// languages are programs that start grandchild ($2) with the fifo ($1) and wait
// for it. They do not read their job.
var languages = []struct {
	name string
	argv []string
}{
	{"sh", []string{"sh", "-c", `sh -c "$2" sh "$1"; exit 0`, "sh"}},
	{"python", []string{"python3", "-c", `import subprocess, sys; subprocess.run(["sh", "-c", sys.argv[2], "sh", sys.argv[1]])`}},
	{"node", []string{"node", "-e", `require("child_process").spawn("sh", ["-c", process.argv[2], "sh", process.argv[1]])`}},
	{"ruby", []string{"ruby", "-e", `system("sh", "-c", ARGV[1], "sh", ARGV[0])`}},
	{"perl", []string{"perl", "-e", `system("sh", "-c", $ARGV[1], "sh", $ARGV[0])`}},
}

// Each daemon runs five jobs at once when it dies, by each of three signals.
func TestNothingOfAJobOutlivesItsDaemon(t *testing.T) {
	const jobs = 5
	deaths := []syscall.Signal{syscall.SIGKILL, syscall.SIGABRT, syscall.SIGSEGV}
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			if _, err := exec.LookPath(l.argv[0]); err != nil {
				redistest.Missing(t, err)
			}
			var longest time.Duration
			survived := 0
			for i := range *tries {
				death := deaths[i%len(deaths)]
				d := startDaemon(t, jobs, l.argv...)
				groups := d.groups(t)
				d.die(t, death)
				died := time.Now()
				for _, pgid := range groups {
					if !groupEnds(pgid) {
						survived++
						t.Errorf("daemon %d, %s: something of process group %d is still alive", i, death, pgid)
						_ = syscall.Kill(-pgid, syscall.SIGKILL)
					}
				}
				longest = max(longest, time.Since(died))
			}
			t.Logf("%d of %d jobs outlived their daemon; it took at most %s", survived, *tries*jobs, longest.Round(time.Millisecond))
		})
	}
}

// The programs kill their daemon as soon as they have started another one.
func TestNothingOfAJobOutlivesTheDaemonThatItKills(t *testing.T) {
	for range *tries * 5 {
		fifo, up, end := pipe(t)
		d := daemonCmd(t, 1, "sh", "-c", `exec 7>"$1"; echo up >&7; (trap "" TERM HUP; sleep 7777; :) & kill -s KILL $PPID; wait`, "sh", fifo)
		harness.OK(t, d.Start())
		t.Cleanup(func() { _ = d.Process.Kill(); _ = d.Wait() })
		within(t, up, "start")
		ends(t, end)
	}
}

// Nothing that a finished job leaves behind could still kill anybody.
func TestNoGuardOutlivesItsJob(t *testing.T) {
	fifo, up, _ := pipe(t)
	goOn := filepath.Join(t.TempDir(), "go")
	harness.OK(t, syscall.Mkfifo(goOn, 0o600))
	h, _ := shell(t, `echo $$ >"$1"; read _ <"$2"`, fifo, goOn)
	done := make(chan error, 1)
	go func() { done <- h.Perform(t.Context(), job(sample)) }()
	pid := harness.Must(strconv.Atoi(within(t, up, "start")))(t)
	pgid := harness.Must(syscall.Getpgid(pid))(t)
	if own := syscall.Getpgrp(); pgid == own {
		t.Errorf("the program is in our own process group %d", own)
	}
	harness.OK(t, os.WriteFile(goOn, []byte("\n"), 0))
	harness.Check(t, within(t, done, "return"))
	if err := syscall.Kill(-pgid, 0); err != syscall.ESRCH {
		t.Errorf("process group %d is still there: %v", pgid, err)
	}
}

// A program that makes a group of its own, as timeout does, is ended with it.
func TestExecEndsAProgramThatHasLeftItsGroup(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		redistest.Missing(t, err)
	}
	fifo, up, end := pipe(t)
	h, err := newExec([]string{"perl", "-e", `setpgrp(0, 0); system("sh", "-c", 'exec 7>"$1"; echo up >&7; exec sleep 7777', "sh", $ARGV[0])`, fifo}, 0, zerolog.Nop())
	harness.OK(t, err)
	h.killDelay = 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- h.Perform(ctx, job(sample)) }()
	within(t, up, "start")
	cancel()
	within(t, done, "return")
	ends(t, end)
}

// The guard here is the last of its group.
func TestGuardKillsItsOwnGroupOnly(t *testing.T) {
	r, w, err := os.Pipe()
	if err == nil {
		err = syscall.SetNonblock(int(r.Fd()), false)
	}
	harness.OK(t, err)
	leader, other := exec.CommandContext(t.Context(), "sleep", "7777"), exec.CommandContext(t.Context(), "sleep", "7777")
	for _, cmd := range []*exec.Cmd{leader, other} {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		harness.OK(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	guard := harness.Must(startGuardOf(leader.Process.Pid, r))(t)
	_ = leader.Process.Kill()
	_ = leader.Wait()
	if err := syscall.Kill(-leader.Process.Pid, 0); err != nil {
		t.Errorf("the group of a guard, whose id nobody else may get: %v", err)
	}
	_ = w.Close()
	_ = r.Close()
	if state, err := guard.Wait(); err != nil || state.String() != "signal: killed" {
		t.Errorf("the guard ended with %v, %v", state, err)
	}
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of another group: %v", err)
	}
}

// A testDaemon is a process that runs jobs by Exec.
type testDaemon struct {
	cmd  *exec.Cmd
	jobs int
	fifo *os.File
}

// startDaemon starts this test binary as a daemon that runs so many jobs at once
// by the program argv, which gets the path of a fifo and grandchild as well.
func startDaemon(t *testing.T, jobs int, argv ...string) *testDaemon {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	harness.OK(t, syscall.Mkfifo(path, 0o600))
	// Opened for writing as well a fifo neither waits for a writer nor ends.
	fifo := harness.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	d := &testDaemon{cmd: daemonCmd(t, jobs, append(argv, path, grandchild)...), jobs: jobs, fifo: fifo}
	harness.OK(t, d.cmd.Start())
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
		_ = fifo.Close()
	})
	return d
}

func daemonCmd(t *testing.T, jobs int, argv ...string) *exec.Cmd {
	t.Helper()
	program := harness.Must(json.Marshal(argv))(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), daemonEnv+"="+string(program), daemonJobsEnv+"="+strconv.Itoa(jobs))
	return cmd
}

func (d *testDaemon) die(t *testing.T, death syscall.Signal) {
	t.Helper()
	harness.OK(t, d.cmd.Process.Signal(death))
	_ = d.cmd.Wait()
}

// groups returns the process groups of the jobs when all grandchildren are up.
func (d *testDaemon) groups(t *testing.T) (pgids []int) {
	t.Helper()
	harness.OK(t, d.fifo.SetReadDeadline(time.Now().Add(time.Minute)))
	lines := bufio.NewScanner(d.fifo)
	for range d.jobs {
		if !lines.Scan() {
			t.Fatalf("%d of %d jobs came up: %v", len(pgids), d.jobs, lines.Err())
		}
		pid := harness.Must(strconv.Atoi(lines.Text()))(t)
		pgid := harness.Must(syscall.Getpgid(pid))(t)
		pgids = append(pgids, pgid)
	}
	return pgids
}

// groupEnds waits until nothing of a process group runs; false: something still
// does after 30 s.
func groupEnds(pgid int) bool {
	return harness.Within(30*time.Second, func() bool { return syscall.Kill(-pgid, 0) == syscall.ESRCH || onlyZombies(pgid) })
}
