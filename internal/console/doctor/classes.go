package doctor

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/words"
)

const (
	lately    = 24 * time.Hour // failures that are older may be mended
	failingIn = time.Hour
	leastRuns = 3 // of which all have failed
)

// handlers looks for classes that nobody has a handler for, among the last failures in retry and dead.
func (e *exam) handlers() error {
	jobs, first := map[string]int{}, map[string]string{}
	seen := map[string]bool{}
	for _, set := range []*inspect.JobSet{e.inspector.RetrySet, e.inspector.DeadSet} {
		for _, lowest := range []bool{true, false} {
			entries, _, err := set.Page(e.ctx, 0, sample, lowest)
			if err != nil {
				return err
			}
			for _, entry := range entries {
				if class := withoutHandler(&entry.JobRecord); class != "" && !seen[entry.Raw] {
					seen[entry.Raw] = true
					if jobs[class]++; first[class] == "" {
						first[class] = entry.Queue
					}
				}
			}
		}
	}
	for _, class := range slices.Sorted(maps.Keys(jobs)) {
		e.find(Warning, "register a handler of this name, or leave the queue "+words.Word(first[class])+" to processes that have one; then: troupe jobs retry retry --class "+words.Word(class),
			"the class %s has no handler where its jobs run: %s failed for that", words.Head(class), words.Plural(jobs[class], "job"))
		e.report.Findings[len(e.report.Findings)-1].Class = class
	}
	return nil
}

// withoutHandler is the class of a job that failed lately as nobody knew the class; "" for any other.
func withoutHandler(r *inspect.JobRecord) string {
	s := r.Summary()
	at, ok := r.Payload.Time("retried_at")
	if !ok {
		at, ok = r.Payload.Time("failed_at")
	}
	if !ok || time.Since(at) > lately {
		return ""
	}
	ours := s.ErrorClass == "troupe.UnknownClassError" || strings.HasPrefix(s.ErrorMessage, "no handler for class ")
	if ours || s.ErrorClass == "NameError" && strings.HasPrefix(s.ErrorMessage, "uninitialized constant ") && strings.HasSuffix(r.Payload.HandlerClass(), strings.Fields(s.ErrorMessage)[2]) {
		return s.Class
	}
	return ""
}

// failing looks for classes of which every run has failed.
func (e *exam) failing() error {
	all, err := e.inspector.Runs(e.ctx, failingIn, failingIn)
	if err != nil {
		return err
	}
	for _, class := range slices.Sorted(maps.Keys(all)) {
		var sum inspect.Runs
		for i := range all[class] {
			sum.Add(&all[class][i])
		}
		told := slices.ContainsFunc(e.report.Findings, func(f Finding) bool { return f.Class == class })
		if sum.Count >= leastRuns && sum.Failed >= sum.Count && !told {
			e.find(Warning, "see why: troupe jobs list retry --class "+words.Word(class), "all %s of the class %s within the last hour have failed", words.Plural(sum.Count, "run"), words.Head(class))
			e.report.Findings[len(e.report.Findings)-1].Class = class
		}
	}
	return nil
}
