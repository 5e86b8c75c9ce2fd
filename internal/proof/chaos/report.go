package chaos

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// What a fault hits is wider than its time: a run that ended shortly before may
// have an ack on its way, and who was away learns a little later what has
// happened meanwhile. On a loaded machine these are not milliseconds.
const (
	acking   = 4 * time.Second
	learning = 2 * time.Second
)

// Report is what has happened in a run.
type Report struct {
	System   string
	Seed     uint64
	Jobs     int // whose push was answered
	Unknown  int // pushes without an answer: such a job may exist or not
	Done     int
	Final    int // not done, and will not be tried again
	Lost     []int
	Children int // done, that were pushed with acks, stood behind others in a chain, or belong to batches

	Callbacks int // of batches, that have begun

	Refused  int      // pushes of a job whose key was held
	Asked    int      // locks that were held when all jobs were done
	Locks    []string // of these, what was not freed within two minutes
	Forgot   int      // by Redis, which had said that it had them
	Stuck    []int    // in Redis, and not done in time
	Counts   map[string]int
	Fences   int // without a fault that explains it: the machine itself stood still
	Again    int // jobs that ran more often than once and once after each failure
	Rolled   int // of these, that a promoted replica did not know as fetched or done, or the job that has pushed them
	Extra    int // their runs too many
	Bound    int // runs that the faults could hit
	Broken   []string
	Recovery []time.Duration // from the death of its process to the job's next start
	Settled  time.Duration   // from the last fault until all was done
	Limits   LimitsReport
}

// run is one run of a job.
type run struct {
	d          *daemon
	job        int
	start, end time.Time // no end: cut off
	how        byte      // d done, f failed on purpose, i interrupted
}

// runs reads what the daemons have written down.
func (s *storm) runs() (all []*run) {
	s.t.Helper()
	s.held, s.asked = 0, map[int][]*run{}
	for _, d := range s.all {
		f, err := os.Open(d.file)
		if os.IsNotExist(err) {
			continue // died before it had opened it
		} else if err != nil {
			s.t.Fatal(err)
		}
		open := map[int]*run{}
		for scan := bufio.NewScanner(f); scan.Scan(); {
			var what byte
			var n int
			var at int64
			if _, err := fmt.Sscanf(scan.Text(), "%c %d %d", &what, &n, &at); err != nil {
				s.t.Fatalf("%s: line %q: %v", d.file, scan.Text(), err)
			}
			if what == 'c' {
				if s.parents[n] == nil {
					s.parents[n] = map[int64]bool{}
				}
				s.parents[n][at] = true
				continue
			}
			if what == 'h' {
				s.held++
				s.asked[n] = append(s.asked[n], &run{d: d, job: n, start: time.Unix(0, at), end: time.Unix(0, at), how: what})
				continue
			}
			if what == 's' {
				open[n] = &run{d: d, job: n, start: time.Unix(0, at)}
				all = append(all, open[n])
			} else {
				open[n].end, open[n].how = time.Unix(0, at), what
			}
		}
		_ = f.Close()
	}
	slices.SortStableFunc(all, func(a, b *run) int { return a.start.Compare(b.start) })
	return all
}

// done are the jobs that have ended well.
func (s *storm) done() map[int]bool {
	s.t.Helper()
	done := map[int]bool{}
	for _, r := range s.runs() {
		if r.how == 'd' {
			done[r.job] = true
		}
	}
	return done
}

func (s *storm) report(left map[int]string, settled time.Duration) *Report {
	s.t.Helper()
	rep := &Report{
		System: s.system.Name, Seed: s.cfg.Seed, Unknown: int(s.unknown.Load()),
		Counts: s.counts, Settled: settled, Refused: int(s.refused.Load()),
	}
	for _, rule := range s.cuts {
		rep.Counts["cut"] += rule.Hits()
	}
	runs := s.runs()
	s.ends()
	s.fences(rep)
	done := s.done()
	for n := range s.accepted {
		if n < duplicateNum {
			rep.Jobs++
		}
		switch place := left[n]; {
		case done[n]:
			rep.Done++
		case place == s.system.Final:
			rep.Final++
		case place != "":
			rep.Stuck = append(rep.Stuck, n)
		case s.forgotten(n):
			rep.Forgot++
		default:
			rep.Lost = append(rep.Lost, n)
		}
	}
	byJob := map[int][]*run{}
	for _, r := range runs {
		byJob[r.job] = append(byJob[r.job], r)
	}
	for n, of := range byJob {
		failed, hits := 0, 0
		for _, r := range of {
			if r.how == 'f' {
				failed++
			}
			for _, sp := range s.spans {
				if s.hit(sp, r) {
					hits++
				}
			}
		}
		rep.Bound += hits
		rolled := s.rolledBack(n, of, false)
		for _, p := range before(n) {
			rolled += s.rolledBack(p, byJob[p], true)
		}
		if extra := len(of) - 1 - failed; extra > 0 {
			rep.Again++
			rep.Extra += extra
			rep.Rolled += min(rolled, 1)
			if extra > hits+rolled {
				rep.Broken = append(rep.Broken, s.story(n, of))
			}
		}
	}
	s.pushed(rep, done, left, byJob)
	slices.Sort(rep.Lost)
	slices.Sort(rep.Stuck)
	s.holders(rep, byJob)
	s.early(rep, byJob)
	rep.Limits.Held = s.held
	for n, times := range s.asked {
		if broken(n) {
			rep.Limits.Rested += len(times)
		}
	}
	s.limits(rep, byJob, done)
	rep.Recovery = s.recoveries(byJob)
	return rep
}

// pushed holds what jobs have pushed with their acks, and what stood behind them, against the jobs: each is done once its
// job is, and a child comes from one run. A job that is dead in the end, though a run of it had come to its end, pushes nothing.
func (s *storm) pushed(rep *Report, done map[int]bool, left map[int]string, byJob map[int][]*run) {
	for n := range s.accepted {
		if !done[n] || left[n] == s.system.Final {
			continue
		}
		dead := false // so is what is behind it
		for _, c := range s.behind(n) {
			switch dead = dead && c >= firstLink || left[c] == s.system.Final; {
			case done[c]:
				rep.Children++
			case dead:
			case left[c] != "":
				rep.Stuck = append(rep.Stuck, c)
			case s.cfg.Fsync != "always" || s.forgottenWith(n, c):
				rep.Forgot++
			default:
				rep.Lost = append(rep.Lost, c)
			}
			if of := len(s.parents[c]); of > 1+s.rolledBack(n, byJob[n], true) && s.cfg.Fsync == "always" {
				rep.Broken = append(rep.Broken, fmt.Sprintf("job %d was pushed by %d runs of job %d", c, of, n))
			}
		}
	}
}

// holders holds the jobs of a key against each other: the second was pushed when the first was out of Redis, so the
// first does not start any more, unless Redis forgets that it was out, or has forgotten it with its lock.
func (s *storm) holders(rep *Report, byJob map[int][]*run) {
	for n := range s.accepted {
		first, second := byJob[n-duplicateNum], byJob[n]
		if n < duplicateNum || len(first) == 0 || len(second) == 0 || s.cfg.Fsync != "always" {
			continue
		}
		if last := first[len(first)-1]; last.start.After(second[0].start) && s.rolledBack(n-duplicateNum, first, true) == 0 {
			rep.Broken = append(rep.Broken, s.story(n, append(slices.Clone(first), second...)))
		}
	}
}

// ends completes the spans of stops: each is over when its process has ended.
func (s *storm) ends() {
	for _, sp := range s.spans {
		for _, d := range s.all {
			if sp.what == "stop" && sp.hits(d) {
				sp.to = d.p.Ended()
			}
		}
	}
}

// fences notes whom a rescuer has in fact taken for dead: who was away and was
// not, has kept its jobs. It adds a span for each fence that no fault explains:
// the machine may stand still for longer than the lease.
func (s *storm) fences(rep *Report) {
	if s.system.Fences == nil {
		return
	}
	for _, sp := range s.spans {
		sp.fenced = map[*daemon]bool{}
	}
	for _, d := range s.all {
		for _, at := range s.system.Fences(d.p) {
			explained := false
			for _, sp := range s.spans {
				if sp.away() && sp.hits(d) && at.After(sp.from) && at.Before(sp.to.Add(2*Lease+learning)) {
					sp.fenced[d], explained = true, true
				}
			}
			if !explained {
				rep.Fences++
				s.spans = append(s.spans, &span{
					what: "stall", hits: func(other *daemon) bool { return other == d }, from: at.Add(-2 * Lease), to: at, fenced: map[*daemon]bool{d: true},
				})
			}
		}
	}
}

// away reports whether the daemons that a fault hits live on without Redis.
func (sp *span) away() bool {
	return sp.what == "redis kill" || sp.what == "promotion" || sp.what == "freeze" || sp.what == "pause" || sp.what == "stall"
}

// hit reports whether a fault could make a job run again after that run: the fault
// was in that run's process, while the run went on, or had ended and its ack was
// on the way. While Redis could not be reached no ack arrived.
func (s *storm) hit(sp *span, r *run) bool {
	if sp.forgot != nil {
		return false // see rolledBack
	}
	to := sp.to
	if sp.away() {
		to = to.Add(learning)
	}
	if !sp.hits(r.d) || r.start.After(to) || sp.away() && sp.fenced != nil && !sp.fenced[r.d] {
		return false
	}
	from, _ := s.reach(sp, r.d)
	return r.end.IsZero() || r.end.After(from)
}

// recoveries are the times that jobs took to start again after their process was
// killed.
func (s *storm) recoveries(byJob map[int][]*run) (out []time.Duration) {
	for _, sp := range s.spans {
		if sp.what != "kill" {
			continue
		}
		for _, of := range byJob {
			for i, r := range of {
				if sp.hits(r.d) && r.end.IsZero() && i+1 < len(of) {
					if d := of[i+1].start.Sub(sp.from); d > 0 {
						out = append(out, d)
					}
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// story tells what has happened to a job.
func (s *storm) story(n int, of []*run) string {
	var text strings.Builder
	fmt.Fprintf(&text, "job %d ran %d times, the faults explain less:", n, len(of))
	began := s.all[0].started
	for _, r := range of {
		fmt.Fprintf(&text, "\n  daemon %d from %.3f s", r.d.id, r.start.Sub(began).Seconds())
		if r.end.IsZero() {
			text.WriteString(", cut off")
		} else {
			fmt.Fprintf(&text, " to %.3f s (%c)", r.end.Sub(began).Seconds(), r.how)
		}
		for _, sp := range s.spans {
			if sp.hits(r.d) && sp.from.Before(r.start.Add(time.Minute)) && sp.to.After(r.start.Add(-time.Minute)) {
				fmt.Fprintf(&text, "; %s %.3f-%.3f s", sp.what, sp.from.Sub(began).Seconds(), sp.to.Sub(began).Seconds())
			}
		}
	}
	return text.String()
}
