package chaos

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Bad tells what is not as it was promised; "" is well.
func (r *Report) Bad() (text string) {
	if len(r.Lost) > 0 {
		text += fmt.Sprintf("%s lost %d jobs: %v\n", r.System, len(r.Lost), r.Lost[:min(20, len(r.Lost))])
	}
	if len(r.Stuck) > 0 {
		text += fmt.Sprintf("%s has not done %d jobs: %v\n", r.System, len(r.Stuck), r.Stuck[:min(20, len(r.Stuck))])
	}
	if n := r.Counts["ended"]; n > 0 {
		text += fmt.Sprintf("%d daemons of %s ended by themselves\n", n, r.System)
	}
	if n := r.Counts["bad exit"]; n > 0 {
		text += fmt.Sprintf("%d daemons of %s ended a stop with another exit code than 0\n", n, r.System)
	}
	if len(r.Locks) > 0 {
		text += fmt.Sprintf("%s holds %d locks without a job: %v\n", r.System, len(r.Locks), r.Locks[:min(5, len(r.Locks))])
	}
	if left := r.Limits.Left; len(left) > 0 {
		text += fmt.Sprintf("%s has %d slots, or rules that hold jobs, when all jobs are done: %v\n", r.System, len(left), left[:min(5, len(left))])
	}
	for _, b := range r.Broken[:min(10, len(r.Broken))] {
		text += r.System + ": " + b + "\n"
	}
	return text
}

// Table prints reports side by side.
func Table(out io.Writer, reports ...*Report) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, value func(r *Report) any) {
		_, _ = fmt.Fprintf(w, "%-44s\t", name)
		for _, r := range reports {
			_, _ = fmt.Fprintf(w, "%v\t", value(r))
		}
		_, _ = fmt.Fprintln(w)
	}
	count := func(what string) func(*Report) any { return func(r *Report) any { return r.Counts[what] } }
	row(fmt.Sprintf("seed %d", reports[0].Seed), func(r *Report) any { return r.System })
	row("jobs whose push was answered", func(r *Report) any { return r.Jobs })
	row("pushes without an answer (unknown)", func(r *Report) any { return r.Unknown })
	row("daemons killed with -9", count("kill"))
	row("daemons paused past the lease", count("pause"))
	row("daemons stopped with TERM", count("stop"))
	row("networks frozen past the lease", count("freeze"))
	row("Redis killed with -9", count("redis kill"))
	row("replicas promoted that were behind", count("failover"))
	row("connections cut, requests and replies lost", count("cut"))
	row("stalls of the machine past the lease", func(r *Report) any { return r.Fences })
	row("starts without Redis, ended with an error", count("not started"))
	row("daemons that ended by themselves", count("ended"))
	row("stops with another exit code than 0", count("bad exit"))
	row("done", func(r *Report) any { return r.Done })
	row("in dead, by the poison rule", func(r *Report) any { return r.Final })
	row("not done in time, still in Redis", func(r *Report) any { return len(r.Stuck) })
	row("children and links of chains, done", func(r *Report) any { return r.Children })
	row("callbacks of batches", func(r *Report) any { return r.Callbacks })
	row("duplicates refused", func(r *Report) any { return r.Refused })
	row("locks held when all jobs were done", func(r *Report) any { return r.Asked })
	row("  of these, after two minutes", func(r *Report) any { return len(r.Locks) })
	row("jobs under limits, done", func(r *Report) any { return r.Limits.Jobs })
	row("  times that one was held", func(r *Report) any { return r.Limits.Held })
	row("    of these, by a breaker", func(r *Report) any { return r.Limits.Rested })
	row(fmt.Sprintf("  most of a key at once (%d may be)", limitMost), func(r *Report) any { return r.Limits.Most })
	row("  begun beside a fenced or forgotten one", func(r *Report) any { return r.Limits.Over })
	row("  most rated ones begun within 2 s", func(r *Report) any { return r.Limits.InTwo })
	row("    these may be", func(r *Report) any { return r.Limits.Allowed })
	row("  slots taken when all jobs were done", func(r *Report) any { return r.Limits.Slots })
	row("    of these, after 90 s", func(r *Report) any { return len(r.Limits.Left) })
	row("forgotten by Redis", func(r *Report) any { return r.Forgot })
	row("LOST", func(r *Report) any { return len(r.Lost) })
	row("jobs that ran again without a failure", func(r *Report) any { return r.Again })
	row("  of these, which a replica had not as ended", func(r *Report) any { return r.Rolled })
	row("  their runs too many", func(r *Report) any { return r.Extra })
	row("  bound: runs that the faults could hit", func(r *Report) any { return r.Bound })
	row("  jobs above their bound", func(r *Report) any { return len(r.Broken) })
	row("recovery after kill -9, p50", func(r *Report) any { return r.recovery(0.5) })
	row("recovery after kill -9, max", func(r *Report) any { return r.recovery(1) })
	row("last fault until all is done", func(r *Report) any { return r.Settled.Round(100 * time.Millisecond) })
	_ = w.Flush()
}

func (r *Report) recovery(p float64) string {
	if len(r.Recovery) == 0 {
		return "-"
	}
	i := cmp.Or(int(p*float64(len(r.Recovery))), 1) - 1
	return fmt.Sprintf("%.1fs", r.Recovery[i].Seconds())
}
