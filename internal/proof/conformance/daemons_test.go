package conformance

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/test/procs"
	"github.com/troupehq/troupe/testkit"
	"github.com/troupehq/troupe/testkit/chaos"
)

// events returns what the worker has written down so far.
func (s *site) events(what, jid string) (found []event) {
	s.t.Helper()
	texts, err := s.notes.LRange(s.t.Context(), eventsKey, int64(len(s.seen)), -1).Result()
	s.must(err)
	for _, text := range texts {
		var e event
		decode(s.t, text, &e)
		s.seen = append(s.seen, e)
	}
	for _, e := range s.seen {
		if e.What == what && (jid == "" || e.JID == jid) {
			found = append(found, e)
		}
	}
	return found
}

// awaitRuns waits for n runs in Go of a job, or of all if jid is "". It waits on
// as long as there are more and more.
func (s *site) awaitRuns(n int, jid string) (runs []event) {
	s.t.Helper()
	for seen := -1; len(runs) < n; seen = len(runs) {
		testkit.Await(s.t, fmt.Sprintf("%d runs in Go of job %q, after %d", n, jid, seen), func() bool {
			runs = s.events("run", jid)
			return len(runs) > max(seen, 0) || len(runs) >= n
		})
	}
	return runs
}

func (s *site) filled(spec workerSpec) workerSpec {
	spec.Redis, spec.Book = s.url, s.book
	if len(spec.Capsules) == 0 {
		spec.Capsules = on(5, "default").Capsules
	}
	return spec
}

// work runs the worker inside the test, until its end or Stop.
func (s *site) work(spec workerSpec) *testkit.Kit {
	s.t.Helper()
	spec = s.filled(spec)
	if spec.Beat == 0 {
		spec.Beat = 100 * time.Millisecond
	}
	if spec.Timeout == 0 {
		spec.Timeout = time.Second
	}
	w := &worker{spec: spec, book: s.notes}
	cfg := w.config(s.rdb)
	log := &harness.Buffer{}
	cfg.Logger = zerolog.New(log)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("--- end of the daemon's log:\n%s", tail(log.String(), 3000))
		}
	})
	return testkit.Start(s.t, cfg)
}

// goProcess is the worker in a process of its own.
type goProcess struct {
	*chaos.Process
	identity string
}

// process runs the worker in a process of its own and waits until it is on the
// list of processes.
func (s *site) process(spec workerSpec) *goProcess {
	s.t.Helper()
	p := procs.Worker(s.t, "worker", s.filled(spec))
	g := &goProcess{Process: p, identity: p.Ready()}
	testkit.Await(s.t, "the first beat", func() bool { return s.rdb.HExists(s.t.Context(), g.identity, "info").Val() })
	return g
}

// hash is a field of what the process says of itself.
func (s *site) hash(g *goProcess, name string) string {
	return s.rdb.HGet(s.t.Context(), g.identity, name).Val()
}

// open lets a job of class Gate or SlowJob end.
func (s *site) open(jid string) {
	s.t.Helper()
	s.must(s.notes.Set(s.t.Context(), gateKey(jid), 1, 0).Err())
}
