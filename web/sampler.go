package web

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/console/doctor"
	"github.com/troupehq/troupe/internal/console/fleet"
)

// How often the sampler looks, and when it rests.
const (
	lookEvery  = 2 * time.Second
	hurryEvery = time.Second // while somebody looks at a tree
	auditEvery = time.Minute // of Redis, which is dearer
	lookTime   = 5 * time.Second
	restAfter  = 30 * time.Second // nobody has asked for so long
	remembered = time.Hour
)

// snapshot is what the sampler has seen at one look. Nobody changes it.
type snapshot struct {
	At        time.Time
	Processes []fleet.Process
	Queues    []fleet.Queue // the fullest first
	Stats     inspect.Stats
	Overdue   map[string]time.Duration // see fleet.Overdue
	Redis     redisFacts
	Findings  []doctor.Finding // of the last audit
	Audited   time.Time        // when that ended; zero for none yet
	History   []sample         // of the last hour, as far as somebody looked
	Past      *past

	Fault error // of later looks, which brought nothing; nil if the last one brought this
	Since time.Time
}

// sample is how many jobs ran, and failed, a second since the look before.
type sample struct {
	At                time.Time
	Processed, Failed float64
}

// redisFacts are those that people want to know.
type redisFacts struct {
	Version   string        `json:"version"`
	Memory    int64         `json:"memory_bytes"`
	MaxMemory int64         `json:"max_memory_bytes"` // 0 is none
	Clients   int64         `json:"clients"`
	Commands  int64         `json:"commands_per_s"`
	Uptime    float64       `json:"uptime_s"`
	RTT       time.Duration `json:"rtt_ns"`
}

// sampler looks at the fleet for all pages, as long as somebody looks at one.
type sampler struct {
	fleet *fleet.Fleet
	rates fleet.Sampler
	ctx   context.Context //nolint:containedctx // of the handler
	group sync.WaitGroup

	mu      sync.Mutex
	running bool
	asked   time.Time
	hurried time.Time
	last    *snapshot
	looked  time.Time
	next    chan struct{} // closed at the next look
	audited time.Time     // when the last one began
	audit   []doctor.Finding
	auditAt time.Time
}

func newSampler(ctx context.Context, f *fleet.Fleet) *sampler {
	return &sampler{fleet: f, ctx: ctx, next: make(chan struct{})}
}

// wait waits until it has ended, after the end of its context.
func (s *sampler) wait() {
	s.mu.Lock()   // after that nothing begins
	s.mu.Unlock() //nolint:staticcheck // it is not for what is between
	s.group.Wait()
}

// touch keeps it looking, and returns the last snapshot, nil if there is none that is fresh, and
// what is closed at the next one.
func (s *sampler) touch() (*snapshot, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Now()
	if !s.running && s.ctx.Err() == nil {
		s.running = true
		s.group.Go(s.run)
	}
	if s.last == nil || time.Since(s.looked) > lookEvery+lookTime { // it has rested
		return nil, s.next
	}
	return s.last, s.next
}

// snapshot is the last one, or the first. An error means that there never was any.
func (s *sampler) snapshot(ctx context.Context) (*snapshot, error) {
	for {
		last, next := s.touch()
		switch {
		case last != nil && last.At.IsZero():
			return nil, last.Fault
		case last != nil:
			return last, nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		}
	}
}

// soonTime is how long a page waits for numbers that it can do without.
const soonTime = 300 * time.Millisecond

// soon is the last snapshot: a fresh one if it is there soon, else an older one; nil if there never was any.
func (s *sampler) soon(ctx context.Context) *snapshot {
	last, next := s.touch()
	if last == nil {
		select {
		case <-next:
		case <-time.After(soonTime):
		case <-ctx.Done():
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		last = s.last
	}
	return last
}

// hurry keeps it looking twice as often.
func (s *sampler) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurried = time.Now()
}

func (s *sampler) run() {
	for {
		began := time.Now()
		s.look()
		s.mu.Lock()
		if s.ctx.Err() != nil || time.Since(s.asked) > restAfter {
			s.running = false
			s.mu.Unlock()
			return
		}
		if time.Since(s.audited) > auditEvery {
			s.audited = time.Now()
			s.group.Go(s.examine)
		}
		pause := lookEvery
		if time.Since(s.hurried) < lookTime {
			pause = hurryEvery
		}
		s.mu.Unlock()
		select {
		case <-time.After(time.Until(began.Add(pause))):
		case <-s.ctx.Done():
		}
	}
}

// look makes the next snapshot. If it cannot, the last one stays, with the fault.
func (s *sampler) look() {
	ctx, cancel := context.WithTimeout(s.ctx, lookTime)
	defer cancel()
	s.mu.Lock()
	old := s.last
	s.mu.Unlock()
	seen, err := s.read(ctx, old)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		kept := snapshot{Since: time.Now()}
		if old != nil {
			kept = *old
			if old.Fault == nil {
				kept.Since = time.Now()
			}
		}
		kept.Fault = err
		seen = &kept
	} else {
		seen.Findings, seen.Audited = s.audit, s.auditAt
		seen.History = history(old, seen)
	}
	s.last, s.looked = seen, time.Now()
	close(s.next)
	s.next = make(chan struct{})
}

// history is that of the snapshot before, with what has been since.
func history(old, seen *snapshot) []sample {
	if old == nil || old.At.IsZero() || !seen.At.After(old.At) {
		return nil
	}
	rate := func(now, before int64) float64 { // statistics may have been reset
		return float64(max(0, now-before)) / seen.At.Sub(old.At).Seconds()
	}
	kept := old.History
	for len(kept) > 0 && seen.At.Sub(kept[0].At) > remembered {
		kept = kept[1:]
	}
	return append(slices.Clip(kept), sample{seen.At, rate(seen.Stats.Processed, old.Stats.Processed), rate(seen.Stats.Failed, old.Stats.Failed)}) // the old snapshot keeps its own
}

func (s *sampler) read(ctx context.Context, old *snapshot) (*snapshot, error) {
	began := time.Now()
	text, err := s.fleet.Redis.Info(ctx).Result()
	if err != nil && !redis.HasErrorPrefix(err, "NOPERM") {
		return nil, err
	}
	seen := &snapshot{Redis: factsOf(text)}
	seen.Redis.RTT = time.Since(began)
	if seen.Processes, err = s.fleet.Processes(ctx); err != nil {
		return nil, err
	}
	if seen.Queues, err = s.rates.Queues(ctx, s.fleet, seen.Processes); err != nil {
		return nil, err
	}
	if seen.Stats, err = s.fleet.Inspector.Stats(ctx); err != nil {
		return nil, err
	}
	if seen.Overdue, err = s.fleet.Overdue(ctx); err != nil {
		return nil, err
	}
	if seen.Past, err = s.readPast(ctx, old); err != nil {
		return nil, err
	}
	seen.At = time.Now()
	return seen, nil
}

// examine audits Redis, for the next snapshots.
func (s *sampler) examine() {
	ctx, cancel := context.WithTimeout(s.ctx, auditEvery)
	defer cancel()
	report, err := doctor.Examine(ctx, s.fleet.Redis)
	if err != nil {
		return // the looks tell that Redis does not answer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit, s.auditAt = report.Findings, time.Now()
}

// factsOf reads the text of INFO.
func factsOf(text string) redisFacts {
	m := doctor.Fields(text)
	return redisFacts{
		Version: m["redis_version"], Memory: integer(m["used_memory"]), MaxMemory: integer(m["maxmemory"]), Clients: integer(m["connected_clients"]),
		Commands: integer(m["instantaneous_ops_per_sec"]), Uptime: float64(integer(m["uptime_in_seconds"])),
	}
}
