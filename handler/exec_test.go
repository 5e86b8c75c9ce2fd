//go:build unix

package handler

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/jobctx"
	"github.com/troupehq/troupe/internal/test/harness"
)

// daemonEnv makes the test binary play a daemon that runs a job by the program
// in the variable, a JSON array of it and its arguments; daemonJobsEnv makes it
// run so many such jobs at once.
const (
	daemonEnv     = "TROUPE_TEST_PROGRAM"
	daemonJobsEnv = "TROUPE_TEST_JOBS"
)

func TestMain(m *testing.M) {
	if fifo := os.Getenv(closerEnv); fifo != "" {
		beCloser(fifo)
	}
	if program := os.Getenv(daemonEnv); program != "" {
		beDaemon(program)
	}
	os.Exit(m.Run())
}

func beDaemon(program string) {
	var argv []string
	err := json.Unmarshal([]byte(program), &argv)
	var h *execHandler
	if err == nil {
		h, err = newExec(argv, 0, zerolog.New(os.Stderr))
	}
	if err == nil {
		jobs, _ := strconv.Atoi(os.Getenv(daemonJobsEnv))
		var wg sync.WaitGroup
		for range max(1, jobs) {
			wg.Go(func() {
				fmt.Fprintln(os.Stderr, "ended:", h.Perform(context.Background(), job("{}")))
			})
		}
		wg.Wait()
	}
	fmt.Fprintln(os.Stderr, "ended:", err)
	os.Exit(3)
}

// closerEnv makes the test binary play a program that closes every descriptor
// it has inherited, and then never ends.
const closerEnv = "TROUPE_TEST_CLOSER"

func beCloser(fifo string) {
	for fd := 3; fd < 20; fd++ {
		_ = syscall.Close(fd)
	}
	fd, err := syscall.Open(fifo, syscall.O_WRONLY, 0)
	if err == nil {
		_, err = syscall.Write(fd, []byte("up\n"))
	}
	if err == nil {
		<-time.After(time.Hour)
	}
	os.Exit(1)
}

func shell(t *testing.T, script string, args ...string) (*execHandler, *harness.Buffer) {
	t.Helper()
	log := &harness.Buffer{}
	h := harness.Must(newExec(append([]string{"sh", "-c", script, "sh"}, args...), 0, zerolog.New(log)))(t)
	h.drainDelay = 20 * time.Second // all output, however slow the machine
	return h, log
}

// expiry lets the test say when the handler's timeout is over: it would else run
// while the shell still starts.
func expiry(h *execHandler) (expire func()) {
	expired := make(chan time.Time)
	h.timeout, h.after = time.Hour, func(time.Duration) <-chan time.Time { return expired }
	return func() { close(expired) }
}

func TestExecGivesThePayloadAndTheEnvironment(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	h, _ := shell(t, `cat >"$1"; echo "$TROUPE_JID $TROUPE_CLASS $TROUPE_QUEUE $TROUPE_ATTEMPT" >>"$1"`, out)
	ctx := context.WithValue(t.Context(), jobctx.Info{}, &troupe.JobInfo{Queue: "critical"})
	harness.OK(t, h.Perform(ctx, job(sample)))
	got := harness.Must(os.ReadFile(out))(t)
	want := sample + "\n" + "b4a577edbccf1d805744efa9 ThumbnailJob critical 4\n"
	if string(got) != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestExecOutcomes(t *testing.T) {
	tests := []struct {
		script, class, message string
		kill                   bool
	}{
		{script: "exit 0"},
		{script: "exit 1", class: "exit status 1", message: "sh: exit status 1"},
		{script: "echo no >&2; exit 75", class: "exit status 75", message: "no"},
		{script: "echo bad data >&2; exit 65", class: "exit status 65", message: "bad data", kill: true},
		{script: "kill -KILL $$", class: "signal: killed", message: "sh: signal: killed"},
		{script: "kill -TERM $$", class: "signal: terminated", message: "sh: signal: terminated"},
		{script: `printf 'a\377b\n' >&2; exit 2`, class: "exit status 2", message: "a\ufffdb"},
		{
			script: `i=0; while [ $i -lt 30 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 2`,
			class:  "exit status 2", message: "line 20\nline 21\nline 22\nline 23\nline 24\nline 25\nline 26\nline 27\nline 28\nline 29",
		},
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			h, _ := shell(t, tt.script)
			err := h.Perform(t.Context(), job(sample))
			if tt.class == "" {
				harness.OK(t, err)
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			harness.Equal(t, "class", troupe.ErrorClass(err), tt.class)
			harness.Equal(t, "message", err.Error(), tt.message)
			o, ok := errors.AsType[*troupe.OutcomeError](err)
			harness.Equal(t, "kill", ok && o.Kill, tt.kill)
		})
	}
}

func TestExecRefusesAMissingProgram(t *testing.T) {
	for _, argv := range [][]string{nil, {""}, {"no-such-program-here"}, {"/no/such/program"}, {"."}} {
		if _, err := newExec(argv, 0, zerolog.Nop()); err == nil {
			t.Errorf("%q accepted", argv)
		}
	}
	// gone since the start
	prog := filepath.Join(t.TempDir(), "prog")
	harness.OK(t, os.WriteFile(prog, []byte("#!/bin/sh\n"), 0o755))
	h, err := newExec([]string{prog}, 0, zerolog.Nop())
	harness.OK(t, err)
	harness.OK(t, os.Remove(prog))
	err = h.Perform(t.Context(), job(sample))
	if !errors.Is(err, os.ErrNotExist) || troupe.ErrorClass(err) != "not started" {
		t.Errorf("got %v, class %q", err, troupe.ErrorClass(err))
	}
}

func TestExecProgramThatDoesNotReadStdin(t *testing.T) {
	h, _ := shell(t, "exec <&-; exit 0")
	huge := `{"class":"A","args":["` + strings.Repeat("x", 4<<20) + `"]}`
	harness.OK(t, h.Perform(t.Context(), job(huge)))
}

func TestExecLogsOutputLines(t *testing.T) {
	h, log := shell(t, `echo one; echo two >&2; printf 'no break'; printf '\r\n'; head -c 10000 /dev/zero | tr '\0' x; printf end >&2`)
	harness.OK(t, h.Perform(t.Context(), job(sample)))
	var out, errs []string
	for _, r := range log.Lines(t) {
		if r["jid"] != "b4a577edbccf1d805744efa9" || r["class"] != "ThumbnailJob" || r["message"] != "job output" {
			t.Errorf("record %v", r)
		}
		line := r["line"].(string)
		if cut, ok := r["cut_bytes"]; ok {
			line = fmt.Sprintf("%d+%v", len(line), cut)
		}
		if r["stream"] == "stdout" {
			out = append(out, line)
		} else {
			errs = append(errs, line)
		}
	}
	if got, want := fmt.Sprint(out), "[one no break 4096+5904]"; got != want {
		t.Errorf("stdout %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(errs), "[two end]"; got != want {
		t.Errorf("stderr %s, want %s", got, want)
	}
}

func TestExecFloodIsCountedNotLogged(t *testing.T) {
	h, log := shell(t, `yes | head -n 300000; exit 4`)
	err := h.Perform(t.Context(), job(sample))
	if troupe.ErrorClass(err) != "exit status 4" {
		t.Fatal(err)
	}
	lines, skipped := 0, 0.0
	for _, r := range log.Lines(t) {
		if r["line"] == "y" {
			lines++
		}
		if n, ok := r["skipped_lines"].(float64); ok {
			skipped += n
		}
	}
	if total := lines + int(skipped); total != 300000 || lines > 20_000 {
		t.Errorf("%d lines logged, %v skipped", lines, skipped)
	}
}

// pipe returns a fifo and its first two lines, and later its end, as channels.
// Whatever has the fifo open for writing is alive until the end comes.
func pipe(t *testing.T) (path string, lines <-chan string, end <-chan struct{}) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	harness.OK(t, syscall.Mkfifo(path, 0o600))
	l1, e1 := make(chan string, 2), make(chan struct{})
	go func() {
		defer close(e1)
		f, err := os.Open(path)
		if err != nil {
			l1 <- err.Error()
			return
		}
		defer func() { _ = f.Close() }()
		r := bufio.NewReader(f)
		for range cap(l1) {
			line, _ := r.ReadString('\n')
			l1 <- strings.TrimSpace(line)
		}
		_, _ = io.Copy(io.Discard, r)
	}()
	return path, l1, e1
}

func within[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("not within 20 s: %s", what)
	}
	panic("unreachable")
}

// ends checks that the end of a fifo has come when the handler returned; the
// reader may need a moment to see it.
func ends(t *testing.T, end <-chan struct{}) {
	t.Helper()
	within(t, end, "end of all processes")
}

func TestExecStopsByTermThenKill(t *testing.T) {
	polite := `exec 7>"$1"; trap 'exit 9' TERM; echo up >&7; while :; do sleep 0.05; done`
	ignores := `exec 7>"$1"; trap '' TERM; echo up >&7; while :; do sleep 0.05; done`
	tests := []struct {
		name, script, class string
		stop                error // nil: the handler's own timeout
		least               time.Duration
	}{
		{"polite, shutdown", polite, "exit status 9", troupe.ErrShutdown, 0},
		{"polite, timeout", polite, "exit status 9", nil, 0},
		{"orderly end is no success", `exec 7>"$1"; trap 'exit 0' TERM; echo up >&7; while :; do sleep 0.05; done`, "exit status 0", troupe.ErrFenced, 0},
		{"ignores TERM, shutdown", ignores, "signal: killed", troupe.ErrShutdown, shutdownKillDelay},
		{"ignores TERM, cancel", ignores, "signal: killed", context.Canceled, killDelay},
		{"ignores TERM, timeout", ignores, "signal: killed", nil, killDelay},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fifo, up, end := pipe(t)
			h, _ := shell(t, tt.script, fifo)
			switch tt.least { // a delay that must not be waited for has no end
			case 0:
				h.killDelay, h.shutdownKillDelay = time.Hour, time.Hour
			case shutdownKillDelay:
				h.killDelay = time.Hour
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			want, stop := tt.stop, func() { cancel(tt.stop) }
			if tt.stop == nil {
				want, stop = troupe.ErrJobTimeout, expiry(h)
			}
			done := make(chan error, 1)
			go func() { done <- h.Perform(ctx, job(sample)) }()
			if got := within(t, up, "start"); got != "up" {
				t.Fatal(got)
			}
			start := time.Now()
			stop()
			err := within(t, done, "return")
			took := time.Since(start)
			ends(t, end)
			if troupe.ErrorClass(err) != tt.class || !errors.Is(err, want) {
				t.Errorf("error %v, class %q; want class %q", err, troupe.ErrorClass(err), tt.class)
			}
			if took < tt.least {
				t.Errorf("took %s, want %s", took, tt.least)
			}
		})
	}
}

func TestExecTimeout(t *testing.T) {
	t.Parallel()
	h := harness.Must(newExec([]string{"sleep", "3600"}, 50*time.Millisecond, zerolog.Nop()))(t)
	done := make(chan error, 1)
	go func() { done <- h.Perform(t.Context(), job(sample)) }()
	if err := within(t, done, "return"); !errors.Is(err, troupe.ErrJobTimeout) || troupe.ErrorClass(err) != "signal: terminated" {
		t.Errorf("%v, class %q", err, troupe.ErrorClass(err))
	}
}

func TestExecShutdownShortensATimeoutsDelay(t *testing.T) {
	t.Parallel()
	fifo, lines, end := pipe(t)
	// tells of the TERM that it ignores
	h, _ := shell(t, `exec 7>"$1"; trap 'echo term >&7' TERM; echo up >&7; while :; do sleep 0.05; done`, fifo)
	h.killDelay = time.Hour
	expire := expiry(h)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- h.Perform(ctx, job(sample)) }()
	if got := within(t, lines, "start"); got != "up" {
		t.Fatal(got)
	}
	expire()
	if got := within(t, lines, "TERM"); got != "term" {
		t.Fatal(got)
	}
	cancel(troupe.ErrShutdown)
	err := within(t, done, "return")
	ends(t, end)
	if !errors.Is(err, troupe.ErrJobTimeout) {
		t.Error(err)
	}
}

func TestExecDoesNotStartACancelledJob(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	h, _ := shell(t, `echo >"$1"`, out)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(troupe.ErrShutdown)
	if err := h.Perform(ctx, job(sample)); !errors.Is(err, troupe.ErrShutdown) {
		t.Error(err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the program ran")
	}
}

func TestExecKillsWhatIsLeftOfTheGroup(t *testing.T) {
	tests := map[string]string{
		"background process that holds stdout": `sh -c 'trap "" TERM HUP; exec 7>"$1"; echo up >&7; while :; do sleep 0.05; done' sh "$1" & read _ <"$2"; exit 0`,
		"background process without stdout":    `sh -c 'trap "" TERM HUP; exec 7>"$1"; echo up >&7; while :; do sleep 0.05; done' sh "$1" >/dev/null 2>&1 </dev/null & read _ <"$2"; exit 0`,
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			fifo, up, end := pipe(t)
			goOn := filepath.Join(t.TempDir(), "go")
			harness.OK(t, syscall.Mkfifo(goOn, 0o600))
			h, _ := shell(t, script, fifo, goOn)
			done := make(chan error, 1)
			go func() { done <- h.Perform(t.Context(), job(sample)) }()
			within(t, up, "start of the background process")
			harness.OK(t, os.WriteFile(goOn, []byte("\n"), 0))
			harness.Check(t, within(t, done, "return"))
			ends(t, end)
		})
	}
}

func TestExecIsNotHeldUpByAnEscapedProcess(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("SKIPPED: no setsid program")
	}
	fifo, up, end := pipe(t)
	stop := filepath.Join(t.TempDir(), "stop")
	harness.OK(t, syscall.Mkfifo(stop, 0o600))
	// it keeps stdin, stdout and stderr open until told to end
	goOn := filepath.Join(t.TempDir(), "go")
	harness.OK(t, syscall.Mkfifo(goOn, 0o600))
	h, _ := shell(t, `setsid sh -c 'exec 7>"$1"; echo up >&7; read _ <"$2"' sh "$1" "$2" & read _ <"$3"; exit 0`, fifo, stop, goOn)
	h.drainDelay = drainDelay
	done := make(chan error, 1)
	go func() { done <- h.Perform(t.Context(), job(sample)) }()
	within(t, up, "start of the escaped process")
	harness.OK(t, os.WriteFile(goOn, []byte("\n"), 0))
	harness.Check(t, within(t, done, "return"))
	harness.OK(t, os.WriteFile(stop, []byte("\n"), 0))
	ends(t, end)
}

func TestExecManyAtOnce(t *testing.T) {
	h, _ := shell(t, `read line; exit 3`)
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if err := h.Perform(t.Context(), job(sample)); troupe.ErrorClass(err) != "exit status 3" {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}
