package conformance

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit/chaos"
)

// Stops of the two sides. A thread of Ruby that waits for a job (2 s at most)
// when the deadline comes may lose what it is just being given: its deadline
// must leave it time to come back first.
const (
	fleetRubyTimeout = "5" // seconds
	fleetGoTimeout   = 2 * time.Second
)

// fleetSlot is one place of the fleet in which one process follows another.
type fleetSlot struct {
	f    *fleet
	side string // go, ruby
	r    *rand.Rand

	now     *fleetProcess
	quietAt time.Time // zero until the process is ready
	stopAt  time.Time
	quieted bool
	stopped bool
}

// fleetProcess is one life in a slot.
type fleetProcess struct {
	*chaos.Process
	side string
	back []string // jids that its stop put back
}

// tick does what is due: start, quiet, stop, replace.
func (s *fleetSlot) tick() {
	s.f.t.Helper()
	now := time.Now()
	switch {
	case s.now == nil:
		s.now, s.quietAt, s.quieted, s.stopped = s.f.start(s.side), time.Time{}, false, false
	case s.stopped && !s.now.Running():
		s.f.readStop(s.now)
		s.now = nil
	case s.stopped:
	case !s.now.Running():
		s.f.t.Fatalf("a %s process ended by itself with code %d", s.side, s.now.Exit(soon))
	case s.quietAt.IsZero():
		if s.now.ready() { // TERM would end a younger one like KILL
			s.quietAt = now.Add(time.Second + s.upTo(3*time.Second))
			s.stopAt = s.quietAt.Add(s.upTo(time.Second))
		}
	case now.After(s.stopAt):
		s.stop()
	case now.After(s.quietAt) && !s.quieted && s.stopAt.Sub(s.quietAt) > time.Second/2:
		s.now.Signal(osproc.Quiet) // half of the stops
		s.quieted = true
	}
}

func (s *fleetSlot) stop() {
	s.now.Signal(syscall.SIGTERM)
	s.stopped = true
}

func (s *fleetSlot) upTo(limit time.Duration) time.Duration {
	return time.Duration(s.r.Int64N(int64(limit)))
}

// start starts a process of one side; it is ready later.
func (f *fleet) start(side string) *fleetProcess {
	f.t.Helper()
	if side == "go" {
		spec := f.filled(workerSpec{
			Timeout: fleetGoTimeout, Poll: time.Second,
			Capsules: []capsuleSpec{
				{Concurrency: 4, Weights: map[string]int{"fleet_a": 2, "fleet_b": 1, "fleet_retries": 1}},
				{Name: "strict", Concurrency: 2, Queues: fleetQueues},
			},
		})
		return &fleetProcess{Process: procs.Worker(f.t, "go", spec), side: side}
	}
	file, err := filepath.Abs(filepath.Join("testdata", "fleet.rb"))
	f.must(err)
	args := []string{"-r", file, "-c", "6", "-t", fleetRubyTimeout, "-q", "fleet_a,2", "-q", "fleet_b", "-q", "fleet_retries"}
	cmd := exec.CommandContext(context.Background(), "sidekiq", args...)
	cmd.Dir = os.TempDir() // no config/sidekiq.yml there
	p := chaos.Launch(f.t, "ruby", cmd, "REDIS_URL="+f.url, "FLEET_BOOK="+f.book, "RUBYOPT=-W0", "LANG=C.UTF-8")
	return &fleetProcess{Process: p, side: side}
}

func (p *fleetProcess) ready() bool {
	if p.side == "go" {
		return len(p.Logged("troupe is running")) > 0
	}
	return strings.Contains(p.Stderr(), "fleet.rb: started")
}

var (
	rubyBack = regexp.MustCompile(`Work still in progress .*`)
	jidThere = regexp.MustCompile(`\\"jid\\":\\"([0-9a-f]{24})\\"`)
)

// readStop reads what a process that has ended says of its stop.
func (f *fleet) readStop(p *fleetProcess) {
	f.t.Helper()
	if code := p.Exit(soon); code != 0 {
		f.t.Errorf("exit code %d of a %s process after TERM", code, p.side)
	}
	if p.side == "go" {
		report := harness.Drain(f.t, p)
		p.back = harness.Strs(report, "requeued")
		if left := append(harness.Strs(report, "left"), harness.Strs(report, "lost")...); len(left) > 0 {
			f.t.Errorf("drain report of a Go process: left or lost %v", left)
		}
	} else {
		log := p.Stdout() + p.Stderr()
		for _, m := range jidThere.FindAllStringSubmatch(rubyBack.FindString(log), -1) {
			p.back = append(p.back, m[1])
		}
		if strings.Contains(log, "Failed to requeue") {
			f.t.Error("a Ruby process could not put its jobs back")
		}
	}
	p.Dull = true
	f.lives = append(f.lives, p)
}
