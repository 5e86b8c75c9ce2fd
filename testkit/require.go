package testkit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
)

// Job is a job that was found, with its decoded args.
type Job[A troupe.Args] struct {
	troupe.Job[A]
	At time.Time // when it is due; zero: at once
}

// RequirePushed fails the test unless exactly one job of A's class was pushed
// whose args fulfil all of match, and returns it.
func RequirePushed[A troupe.Args](tb testing.TB, p *Pushes, match ...func(A) bool) *Job[A] {
	tb.Helper()
	fits, class := pushedOf(tb, p, match)
	if len(fits) != 1 {
		tb.Fatalf("expected one push of %s that fits, got %d\n%s", class, len(fits), p.list(class))
	}
	return fits[0]
}

// RequireNotPushed fails the test if a job of A's class was pushed whose args
// fulfil all of match.
func RequireNotPushed[A troupe.Args](tb testing.TB, p *Pushes, match ...func(A) bool) {
	tb.Helper()
	if fits, class := pushedOf(tb, p, match); len(fits) > 0 {
		tb.Fatalf("expected no push of %s that fits, got %d\n%s", class, len(fits), p.list(class))
	}
}

// RequirePushedMany fails the test unless the jobs pushed are exactly want, in
// this order, whatever their options; the failure shows the difference.
func RequirePushedMany(tb testing.TB, p *Pushes, want ...troupe.Args) {
	tb.Helper()
	var wanted, got []string
	for _, args := range want {
		raw, err := job.EncodeArgs(args)
		if err != nil {
			tb.Fatalf("args of %s: %v", args.Class(), err)
		}
		wanted = append(wanted, args.Class()+" "+string(raw))
	}
	for _, j := range p.All() {
		got = append(got, j.Class()+" "+string(j.Args()))
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		tb.Fatalf("pushed jobs (-want +got):\n%s", diff)
	}
}

// pushedOf returns the pushes of A's class that fit.
func pushedOf[A troupe.Args](tb testing.TB, p *Pushes, match []func(A) bool) (fits []*Job[A], class string) {
	tb.Helper()
	class = classOf[A]()
	return fitting(tb, p.All(), class, match), class
}

// fitting returns those of jobs that are of A's class and fit. Args that cannot be
// decoded fail the test: they would fail the job.
func fitting[A troupe.Args](tb testing.TB, jobs []Pushed, class string, match []func(A) bool) (fits []*Job[A]) {
	tb.Helper()
	for _, j := range jobs {
		if j.Class() != class {
			continue
		}
		job := &Job[A]{At: j.At}
		job.JID, job.Queue, job.Attempt, job.Payload = j.JID(), j.Payload.Queue(), j.Failures()+1, j.Clone()
		if err := troupe.DecodeArgs(j.Args(), &job.Args); err != nil {
			tb.Fatalf("job %s of %s: %v", j.JID(), class, err)
		}
		if !slices.ContainsFunc(match, func(f func(A) bool) bool { return !f(job.Args) }) {
			fits = append(fits, job)
		}
	}
	return fits
}

// classOf asks a usable zero value of A, as the registry does.
func classOf[A troupe.Args]() string {
	var args A
	_ = troupe.DecodeArgs(nil, &args) // makes what a pointer type points to, whether or not args are missing
	return args.Class()
}

// list shows what was pushed of class, and of what other classes there was more.
func (p *Pushes) list(class string) string {
	var b strings.Builder
	others := map[string]int{}
	var order []string
	fmt.Fprintf(&b, "pushed of %s:\n", class)
	for _, j := range p.All() {
		if c := j.Class(); c != class {
			if others[c] == 0 {
				order = append(order, c)
			}
			others[c]++
			continue
		}
		fmt.Fprintf(&b, "  %s args %s queue %s", j.JID(), bytes.TrimSpace(j.Args()), j.Payload.Queue())
		if !j.At.IsZero() {
			fmt.Fprintf(&b, " at %s", j.At.Format(time.RFC3339))
		}
		b.WriteByte('\n')
	}
	for _, c := range order {
		fmt.Fprintf(&b, "pushed of %s: %d\n", c, others[c])
	}
	return b.String()
}
