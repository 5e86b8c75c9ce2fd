package proc_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupehq/troupe/bench/internal/proc"
)

func TestUsageOfAnotherProcess(t *testing.T) {
	busy := start(t, "while :; do :; done")
	sleeper := start(t, "exec sleep 600")
	deadline := time.Now().Add(30 * time.Second)
	for proc.CPU(busy.PID()) < 50*time.Millisecond {
		if time.Now().After(deadline) {
			t.Fatalf("a busy loop has used %v in 30 s", proc.CPU(busy.PID()))
		}
		time.Sleep(time.Millisecond) // a poll: nothing tells of another process
	}
	if idle := proc.CPU(sleeper.PID()); idle <= 0 || idle > 50*time.Millisecond {
		t.Errorf("a sleeping process has used %v", idle)
	}
	if rss, peak := proc.RSS(busy.PID()), proc.PeakRSS(busy.PID()); rss < 100<<10 || peak < rss {
		t.Errorf("RSS %d, peak %d", rss, peak)
	}
	sleeper.Kill()
	if got := proc.CPU(sleeper.PID()); got != 0 {
		t.Errorf("a process that is gone has used %v", got)
	}
}

func TestFamilyHasTheChildren(t *testing.T) {
	p := start(t, "sleep 600 & sleep 600 & wait")
	deadline := time.Now().Add(30 * time.Second)
	for len(proc.Family(p.PID())) != 3 {
		if time.Now().After(deadline) {
			t.Fatalf("family %v, expected three", proc.Family(p.PID()))
		}
		time.Sleep(time.Millisecond) // a poll: nothing tells of another process
	}
	for _, pid := range proc.Family(p.PID())[1:] { // ours as well
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func TestAnEndedProcessTellsItsLastWords(t *testing.T) {
	p := start(t, "echo out of jam >&2; exit 3")
	<-p.Done()
	if err := p.Ended(); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "out of jam") {
		t.Errorf("Ended: %v", err)
	}
}

// The workers of a driver that is killed must not run on.
func TestChildrenDieWithTheirParent(t *testing.T) {
	if os.Getenv("PROC_TEST_PARENT") != "" {
		p, err := proc.Start(exec.CommandContext(context.Background(), "sleep", "600"), os.Getenv("PROC_TEST_PARENT"), "child")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(os.Getenv("PROC_TEST_PARENT")+"/pid", []byte{byte(p.PID()), byte(p.PID() >> 8), byte(p.PID() >> 16)}, 0o600); err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		return
	}
	dir := t.TempDir()
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildrenDieWithTheirParent$")
	parent.Env = append(os.Environ(), "PROC_TEST_PARENT="+dir)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(30 * time.Second)
	var child int
	for child == 0 {
		if b, _ := os.ReadFile(dir + "/pid"); len(b) == 3 {
			child = int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		}
		if time.Now().After(deadline) {
			t.Fatal("the parent has started no child")
		}
		time.Sleep(time.Millisecond) // a poll: nothing tells of another process
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for alive(child) {
		if time.Now().After(deadline) {
			t.Fatal("the child lives on")
		}
		time.Sleep(time.Millisecond) // a poll: nothing tells of another process
	}
}

// alive is false for a process that is gone or only waits to be reaped.
func alive(pid int) bool { return proc.RSS(pid) > 0 }

func start(t *testing.T, script string) *proc.Process {
	t.Helper()
	p, err := proc.Start(exec.CommandContext(context.Background(), "sh", "-c", script), t.TempDir(), "p")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}
