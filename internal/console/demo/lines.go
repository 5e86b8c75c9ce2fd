package demo

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/console/screen"
)

const (
	linesEvery = time.Second
	// repeatEvery is how often lines that tell the same are written.
	repeatEvery = 5 * time.Second
	// treeLines is how many lines a whole tree may take.
	treeLines = 30
)

// lines writes snapshots as log lines: one summary a second, a line for each
// restart, the tree when it has started and when it stops. For people it begins
// with what there is to see.
type lines struct {
	out   io.Writer // locked
	json  bool
	log   zerolog.Logger // of the display itself, past the filter
	sieve *sieve

	grown    bool // the whole tree has been written once
	stopping bool // and again when the stop began
	restarts map[string]int
}

func newLines(out io.Writer, json, color bool) *lines {
	out = zerolog.SyncWriter(out)
	to := out
	if !json {
		to = zerolog.ConsoleWriter{
			Out: out, NoColor: !color, TimeFormat: time.TimeOnly,
			FieldsOrder:   []string{"phase", "actor", "class", "state", "pushed", "processed", "failed", "retried", "rate"},
			FieldsExclude: []string{"stack", "drain"}, // pages long; the report is printed as text
		}
	}
	return &lines{
		out: out, json: json, log: zerolog.New(to).With().Timestamp().Logger(),
		sieve: &sieve{to: to, seen: map[string]*repeat{}}, restarts: map[string]int{},
	}
}

func (l *lines) logs() zerolog.LevelWriter { return zerolog.LevelWriterAdapter{Writer: l.sieve} }
func (l *lines) every() time.Duration      { return linesEvery }
func (l *lines) open(*show)                {}
func (l *lines) close()                    {}

func (l *lines) begin(intro []string) {
	if !l.json {
		_, _ = io.WriteString(l.out, strings.Join(intro, "\n")+"\n\n")
	}
}

func (l *lines) show(s snapshot) {
	down, processors := 0, 0
	for _, n := range s.Tree {
		if n.Role == "processor" {
			processors++
		}
		switch n.State {
		case actors.StateRunning, actors.StateIdle, actors.StateBusy, actors.StateStopped:
		default:
			down++
		}
	}
	stopping := s.Phase == phaseStopping
	if !l.grown && down > 0 && s.Up < linesEvery {
		return // the first picture of the tree is one of a tree that runs
	}
	if !l.grown && processors == s.Slots || stopping && !l.stopping {
		l.tree(s)
		l.grown, l.stopping = true, stopping
	}
	for _, n := range s.Tree {
		if n.Restarts > l.restarts[n.Path] {
			l.restarts[n.Path] = n.Restarts
			l.log.Warn().Str("actor", n.Path).Int("restarts", n.Restarts).Str("reason", n.LastFailure).Msg("an actor was restarted")
		}
	}
	e := l.log.Info().Str("phase", string(s.Phase)).Uint64("pushed", s.Pushed).Uint64("processed", s.Stats.Processed).
		Uint64("failed", s.Stats.Failed).Uint64("retried", s.Retried).Float64("rate", tenth(s.DoneRate)).
		Int("busy", s.Stats.Busy).Int("actors", len(s.Tree)).Int("down", down).Int("restarts", restarts(s.Tree))
	if s.Counted {
		e = e.Int64("enqueued", s.Counts.Enqueued).Int64("scheduled", s.Counts.Scheduled).
			Int64("retries", s.Counts.Retries).Int64("dead", s.Counts.Dead)
	}
	if s.Start.N > 0 {
		e = e.Float64("start_p50_ms", millis(s.Start.P50)).Float64("start_p99_ms", millis(s.Start.P99))
	}
	if s.Late.N > 0 {
		e = e.Float64("late_p50_ms", millis(s.Late.P50)).Float64("late_p99_ms", millis(s.Late.P99))
	}
	if s.Unpushed > 0 {
		e = e.Uint64("unpushed", s.Unpushed)
	}
	if s.Stats.RedisAway {
		e = e.Bool("redis_away", true)
	}
	if why := s.Stats.RedisRefuses; why != "" {
		e = e.Str("redis_refuses", why)
	}
	e.Msg("demo")
}

// tree draws the tree for people, and writes one line an actor for programs. Idle processors
// are summed up where there are many.
func (l *lines) tree(s snapshot) {
	tree := screen.Fit(s.Tree, treeLines)
	if !l.json {
		_, _ = io.WriteString(l.out, "\n"+tree.String()+"\n")
		return
	}
	for _, n := range tree {
		line := l.log.Info().Str("actor", n.Path).Str("state", string(n.State))
		if n.Job != nil {
			line = line.Str("class", n.Job.Class)
		}
		if n.Restarts > 0 {
			line = line.Int("restarts", n.Restarts)
		}
		line.Msg("tree")
	}
}

func (l *lines) finish(f finale) {
	l.sieve.end() // an unresponsive handler may still speak up
	if !l.json {  // there it is in the daemon's last line
		_, _ = io.WriteString(l.out, f.text())
	}
}

func millis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}

func tenth(f float64) float64 { return float64(int64(f*10+0.5)) / 10 }

// sieve passes the notable ones of the daemon's log lines: not one for each job,
// and of those that tell the same one in repeatEvery, with the number of others.
type sieve struct {
	to io.Writer

	mu    sync.Mutex
	ended bool
	seen  map[string]*repeat
}

type repeat struct {
	written time.Time
	held    int
}

// maxSeen bounds what a sieve remembers.
const maxSeen = 100

// Write takes one log line.
func (s *sieve) Write(raw []byte) (int, error) {
	l, ok := parseLine(raw)
	if !ok {
		return len(raw), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return len(raw), nil
	}
	r := s.seen[l.key()]
	if r == nil {
		if len(s.seen) == maxSeen {
			clear(s.seen)
		}
		r = &repeat{}
		s.seen[l.key()] = r
	}
	now := time.Now()
	if now.Sub(r.written) < repeatEvery {
		r.held++
		return len(raw), nil
	}
	line := raw
	if r.held > 0 {
		if body, ok := bytes.CutSuffix(bytes.TrimSpace(raw), []byte("}")); ok {
			line = fmt.Appendf(nil, "%s,\"repeated\":%s}\n", body, strconv.Itoa(r.held))
		}
	}
	r.written, r.held = now, 0
	if _, err := s.to.Write(line); err != nil {
		return 0, err
	}
	return len(raw), nil
}

// end drops whatever comes from now on.
func (s *sieve) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}
