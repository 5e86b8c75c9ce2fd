package deploy

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/redistest"
)

// settings are those of the unit, the last of each name.
func settings(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(read(t, "systemd/troupe.service")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			all[name] = value
		}
	}
	return all
}

// systemd itself reads the unit, with the program where it is here, and finds little that a daemon
// could harm.
func TestSystemdReadsTheUnit(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		redistest.Missing(t, err)
	}
	unit := filepath.Join(t.TempDir(), "troupe.service")
	text := strings.Replace(read(t, "systemd/troupe.service"), "/usr/local/bin/troupe", program(t), 1)
	harness.OK(t, os.WriteFile(unit, []byte(text), 0o644))
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", unit).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=20", unit).CombinedOutput()
	if err != nil {
		t.Errorf("security: %v, expected an exposure of 2.0 at most\n%s", err, out)
	}
}

// The unit gives a stop the time that it takes, and restarts what fails.
func TestTheTimesOfTheUnit(t *testing.T) {
	unit := settings(t)
	seconds := func(name string) int {
		n, err := strconv.Atoi(unit[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return n
	}
	if n := seconds("TimeoutStopSec"); n < 33+5 {
		t.Errorf("TimeoutStopSec is %d, and a stop takes 33 s", n)
	}
	if n := seconds("WatchdogSec"); n < 10 || n > 60 {
		t.Errorf("WatchdogSec is %d", n)
	}
	for name, want := range map[string]string{"Type": "notify", "Restart": "on-failure", "KillMode": "mixed", "WatchdogSignal": "SIGTERM", "StartLimitIntervalSec": "0"} {
		if unit[name] != want {
			t.Errorf("%s is %q, expected %q", name, unit[name], want)
		}
	}
}

// ExecStart, run as systemd runs it: it is ready, feeds the watchdog, has a status line, and says that it stops.
// That a wedged actor ends the feeding is tested in virtual time, in package actors.
func TestExecStartTalksToSystemd(t *testing.T) {
	binary := program(t)
	name := fmt.Sprintf("@%s-%d", t.Name(), os.Getpid()) // no file
	socket := harness.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}))(t)
	t.Cleanup(func() { _ = socket.Close() })
	config := filepath.Join(t.TempDir(), "troupe.yml")
	harness.OK(t, os.WriteFile(config, []byte("handlers: {NoOp: {builtin: noop}}\n"), 0o600))
	_, url := redistest.New(t)
	port := freePort(t)
	start := strings.NewReplacer("/usr/local/bin/troupe", binary, "/etc/troupe/troupe.yml", config, ":9433", ":"+port).Replace(settings(t)["ExecStart"])
	args := strings.Fields(start)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	// WATCHDOG_PID is not set: it would be that of this process
	cmd.Env = []string{"NOTIFY_SOCKET=" + name, "WATCHDOG_USEC=1000000", "REDIS_URL=" + url}
	var log bytes.Buffer
	cmd.Stderr = &log
	harness.OK(t, cmd.Start())
	heard := ""
	hear := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !regexp.MustCompile("(?m)^" + what + "$").MatchString(heard); {
			harness.OK(t, socket.SetReadDeadline(deadline))
			b := make([]byte, 4096)
			n, err := socket.Read(b)
			if err != nil {
				t.Fatalf("%s: %v, heard is %q\n%s", what, err, heard, &log)
			}
			heard += string(b[:n]) + "\n"
		}
	}
	hear("READY=1")
	hear("WATCHDOG=1")
	hear("STATUS=running, 0 of 10 busy")
	heard = ""
	hear("WATCHDOG=1")
	if out, err := exec.CommandContext(t.Context(), binary, "health", "--ready", "--ops", "127.0.0.1:"+port).CombinedOutput(); err != nil {
		t.Errorf("health: %v, %s", err, out)
	}
	if strings.Contains(heard, "STOPPING") {
		t.Errorf("heard before TERM is %q", heard)
	}
	stop(t, cmd, &log)
	hear("STOPPING=1")
}
