package actors_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
	"github.com/troupehq/troupe/testkit/script"
)

// systemd is a socket for what a daemon tells systemd. It is read without waiting, so that a
// bubble can do it.
type systemd int

func newSystemd(t *testing.T, watchdog time.Duration) systemd {
	t.Helper()
	first := make(chan os.Signal, 1)
	signal.Notify(first, syscall.SIGUSR2) // the first one makes what is for all, and not in a bubble
	signal.Stop(first)
	fd := harness.Must(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0))(t)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	path := fmt.Sprintf("@%s-%d", t.Name(), os.Getpid()) // no file
	harness.OK(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	harness.OK(t, syscall.SetNonblock(fd, true))
	t.Setenv("NOTIFY_SOCKET", path)
	if watchdog > 0 {
		t.Setenv("WATCHDOG_USEC", fmt.Sprint(watchdog.Microseconds()))
		t.Setenv("WATCHDOG_PID", fmt.Sprint(os.Getpid()))
	}
	return systemd(fd)
}

// hears are the lines that come within d. The socket has room for ten.
func (s systemd) hears(d time.Duration) (all []string) {
	for until := time.Now().Add(d); time.Now().Before(until); {
		time.Sleep(min(10*time.Second, time.Until(until)))
		all = append(all, s.heard()...)
	}
	return all
}

func (s systemd) heard() (all []string) {
	for {
		b := make([]byte, 4096)
		n, _, err := syscall.Recvfrom(int(s), b, 0)
		if err != nil {
			return all
		}
		all = append(all, strings.Split(string(b[:n]), "\n")...)
	}
}

// mainOf runs Main until stop, which returns the exit code.
func mainOf(t *testing.T, cfg actors.Config) (d *actors.Daemon, stop func() int) {
	t.Helper()
	created := make(chan *actors.Daemon, 1)
	cfg.On.Created = append(cfg.On.Created, func(d *actors.Daemon) { created <- d })
	ctx, cancel := context.WithCancel(context.Background())
	code := make(chan int, 1)
	go func() { code <- actors.MainShards(ctx, actors.Shard{Config: cfg}) }()
	return <-created, func() int { cancel(); return <-code }
}

// The watchdog is fed as long as all actors work: when one is wedged it is not, and once that
// has lasted for WatchdogSec systemd restarts the process.
func TestSystemdHearsOfAWedgedActor(t *testing.T) {
	s := newSystemd(t, 30*time.Second)
	synctest.Test(t, func(t *testing.T) {
		jobs := script.New(t)
		mem := testkit.NewMemory(t)
		d, stop := mainOf(t, actors.Config{Redis: mem.Client, Registry: jobs.Registry(), Logger: zerolog.Nop(), Concurrency: 2})
		if heard := s.hears(6 * time.Second); !slices.Contains(heard, "READY=1") || !slices.Contains(heard, "WATCHDOG=1") || !slices.Contains(heard, "STATUS=running, 0 of 2 busy") {
			t.Errorf("at the start: %q", heard)
		}
		for range 20 { // quicker than every 15 s
			if heard := s.hears(15 * time.Second); strings.Join(heard, " ") != "WATCHDOG=1 WATCHDOG=1 WATCHDOG=1" {
				t.Errorf("all is well: %q", heard)
			}
		}
		harness.OK(t, d.Faults().Hold("launcher/default/fetcher"))
		if heard := s.hears(59 * time.Second); !slices.Contains(heard, "WATCHDOG=1") {
			t.Errorf("wedged for less than a minute: %q", heard)
		}
		s.hears(6 * time.Second)
		heard := s.hears(time.Minute)
		if slices.Contains(heard, "WATCHDOG=1") {
			t.Errorf("wedged for two minutes: %q", heard)
		}
		if status := regexp.MustCompile(`^STATUS=running, 0 of 2 busy, launcher/default/fetcher has been held for 2m[0-9]s$`); !slices.ContainsFunc(heard, status.MatchString) {
			t.Errorf("the status: %q", heard)
		}
		_ = d.Faults().Release("launcher/default/fetcher")
		if heard := s.hears(10 * time.Second); !slices.Contains(heard, "WATCHDOG=1") {
			t.Errorf("it works again: %q", heard)
		}
		harness.Equal(t, "exit code", stop(), actors.ExitOK)
		if heard := s.heard(); !slices.Contains(heard, "STOPPING=1") {
			t.Errorf("at the end: %q", heard)
		}
		if heard := s.hears(time.Minute); len(heard) > 0 {
			t.Errorf("after the end: %q", heard)
		}
	})
}

// Redis may be away for as long as it likes, and without a watchdog there is a status line.
func TestSystemdHearsThatRedisIsAway(t *testing.T) {
	s := newSystemd(t, 0)
	synctest.Test(t, func(t *testing.T) {
		proxy := chaos.NewProxy(t, testkit.NewMemory(t).Options())
		// no listening connection: see wedgedStop
		proxy.Add(chaos.Fault{Do: chaos.Effect{Refuse: "ERR on purpose"}, Mentions: "troupe:poller"})
		_, stop := mainOf(t, actors.Config{Redis: proxy.Client(), Registry: script.New(t).Registry(), Logger: zerolog.Nop()})
		s.hears(time.Minute)
		proxy.Kill()
		heard := s.hears(time.Minute)
		if status := regexp.MustCompile(`^STATUS=running, 0 of 10 busy, Redis has been away for \d+s$`); !slices.ContainsFunc(heard, status.MatchString) || slices.Contains(heard, "WATCHDOG=1") {
			t.Errorf("%q", heard)
		}
		began := time.Now()
		if code := stop(); code != actors.ExitOK || time.Since(began) > 33*time.Second {
			t.Errorf("exit code %d after %s", code, time.Since(began))
		}
		proxy.Restart()
		time.Sleep(time.Minute) // the client's dials come to their end
	})
}
