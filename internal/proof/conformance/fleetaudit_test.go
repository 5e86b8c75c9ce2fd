package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// seenEnough reports whether all that the test is about has happened.
func (f *fleet) seenEnough() bool {
	s := f.log.seen()
	return min(s.Ok["go"], s.Ok["ruby"]) >= 50 && min(s.Failed["go"], s.Failed["ruby"]) >= 10 &&
		min(s.Interrupted["go"], s.Interrupted["ruby"]) >= 2 && s.Crossed >= 20
}

// unended are the jobs that have not come to the end of their last run.
func (f *fleet) unended() (left []*fleetJob) {
	for _, j := range f.jobs {
		want, _ := j.runs()
		ended := slices.ContainsFunc(f.log.of[j.jid], func(r *fleetRun) bool {
			return r.Failures == want-1 && (r.outcome == "ok" || r.outcome == "failed")
		})
		if !ended {
			left = append(left, j)
		}
	}
	return left
}

// allEnded reports whether every job has had its runs and none is anywhere but in dead.
func (f *fleet) allEnded() bool {
	return len(f.unended()) == 0 && len(f.leftovers()) == 0
}

// leftovers are the jobs that are anywhere but in dead.
func (f *fleet) leftovers() (left []string) {
	f.t.Helper()
	for _, queue := range append(fleetQueues, "default") {
		for _, raw := range f.queue(queue) {
			left = append(left, queue+": "+raw)
		}
	}
	for _, set := range []string{"retry", "schedule"} {
		for _, raw := range f.members(set) {
			left = append(left, set+": "+raw)
		}
	}
	lists, err := redistest.InProgress(f.t.Context(), f.rdb)
	f.must(err)
	for key, jobs := range lists {
		for _, raw := range jobs {
			left = append(left, key+": "+raw)
		}
	}
	return left
}

// audit holds what was noted against what had to happen.
func (f *fleet) audit() {
	f.t.Helper()
	f.log.read(f)
	doubled := f.settle()
	dead := map[string][]string{}
	for _, raw := range f.members("dead") {
		jid := payload(f.t, raw).JID()
		dead[jid] = append(dead[jid], raw)
	}
	deaths := map[string]int{}
	for _, e := range f.events("death", "") {
		deaths[e.JID]++
	}
	ours := map[string]bool{}
	for _, j := range f.jobs {
		ours[j.jid] = true
		faults := f.faults(j, dead[j.jid], deaths[j.jid], doubled[j.jid])
		if len(faults) == 0 {
			continue
		}
		var history []string
		for _, r := range f.log.of[j.jid] {
			history = append(history, r.String())
		}
		f.t.Errorf("%s\n%s\nbut it\n\t%s\ndead: %v", j, strings.Join(faults, "\n"), strings.Join(history, "\n\t"), dead[j.jid])
	}
	for jid := range f.log.of {
		if !ours[jid] {
			f.t.Errorf("nobody has pushed %s", jid)
		}
	}
	if len(doubled) > 0 {
		f.t.Logf("Ruby put %d jobs back that had ended: %v", len(doubled), doubled)
	}
	for _, left := range f.leftovers() {
		f.t.Errorf("left in %s", left)
	}
	for _, key := range []string{"troupe:places", "troupe:expiries"} {
		if f.rdb.Exists(f.t.Context(), key).Val() != 0 {
			f.t.Errorf("key %s is left", key)
		}
	}
	f.auditStats()
}

// settle marks the runs whose jobs were put back at a stop. Ruby may put a job
// back that ends in the same moment: it has its result and runs again, too. The
// jids of such jobs are returned; they may do more than they should, not less.
func (f *fleet) settle() (doubled map[string]bool) {
	f.t.Helper()
	doubled = map[string]bool{}
	for _, p := range f.lives {
		for _, jid := range p.back {
			var last *fleetRun
			for _, r := range f.log.of[jid] {
				if r.PID == p.PID() {
					last = r
				}
			}
			switch {
			case last == nil: // put back before it began
			case p.side == "ruby" && (last.outcome == "ok" || last.outcome == "failed"):
				doubled[jid] = true
			default:
				last.refused = true
			}
		}
		for _, r := range f.log.runs {
			if r.PID == p.PID() && (r.outcome == "" || r.outcome == "interrupted") && !slices.Contains(p.back, r.JID) {
				f.t.Errorf("%s was interrupted in a %s process that did not put it back", r.JID, p.side)
			}
		}
	}
	return doubled
}

// faults tells what is wrong with the history of a job.
func (f *fleet) faults(j *fleetJob, dead []string, deaths int, doubled bool) (faults []string) {
	f.t.Helper()
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	want, place := j.runs()
	counted := 0 // runs with a result
	for i, r := range f.log.of[j.jid] {
		if r.refused {
			continue
		}
		if i == 0 && j.task.Hang {
			fault("it did not hang")
		}
		queue, outcome := j.queue, "ok"
		if r.Failures > 0 && j.retryQueue != "" {
			queue = j.retryQueue
		}
		if r.Failures < j.task.Fails {
			outcome = "failed"
		}
		if r.outcome != outcome || r.Queue != queue || !sameJSON(f.t, r.Args, j.args()) {
			fault("a run: %s, args %s; want %s from %s", r, r.Args, outcome, queue)
		}
		if r.Failures != counted && !doubled {
			fault("a run after %d failures follows %d runs with a result", r.Failures, counted)
		}
		counted++
	}
	if counted != want && (!doubled || counted < want) {
		fault("%d runs with a result", counted)
	}
	wantDead, wantDeaths := 0, 0
	if place == "dead" {
		wantDead = 1
	}
	if place != "done" {
		wantDeaths = 1
	}
	if len(dead) != wantDead && (!doubled || len(dead) < wantDead) {
		fault("%d times in dead", len(dead))
	}
	if deaths != wantDeaths && (!doubled || deaths < wantDeaths) {
		fault("death handlers ran %d times", deaths)
	}
	for _, raw := range dead {
		p := payload(f.t, raw)
		if count, _ := p.Int("retry_count"); count != int64(want-1) || field(f.t, raw, "custom") != `"kept"` || !sameJSON(f.t, p.Args(), j.args()) {
			fault("in dead: %s", raw)
		}
	}
	return faults
}

// auditStats holds the statistics against the runs: every run is processed, and
// failed unless it ended well; one that a stop interrupted has failed, too.
func (f *fleet) auditStats() {
	f.t.Helper()
	processed, failed, unknown := 0, 0, 0
	for _, r := range f.log.runs {
		switch r.outcome {
		case "":
			unknown++ // it outlived its process: nobody knows whether it was counted
		case "ok":
			processed++
		default:
			processed, failed = processed+1, failed+1
		}
	}
	for name, want := range map[string]int{"processed": processed, "failed": failed} {
		total, err := f.rdb.Get(f.t.Context(), "stat:"+name).Int()
		f.must(err)
		days := 0
		for _, key := range f.rdb.Keys(f.t.Context(), "stat:"+name+":*").Val() {
			n, err := strconv.Atoi(f.rdb.Get(f.t.Context(), key).Val())
			f.must(err)
			days += n
		}
		if total < want || total > want+unknown || days != total {
			f.t.Errorf("stat:%s is %d, its days %d; %d runs (and %d that outlived their process) make %d", name, total, days, len(f.log.runs), unknown, want)
		}
	}
}
