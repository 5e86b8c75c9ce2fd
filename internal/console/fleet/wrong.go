package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/beat"
	"github.com/troupehq/troupe/internal/console/doctor"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// From when on something is wrong.
const (
	longWait  = time.Minute // the oldest job of a queue waits, or one is overdue
	storm     = 5           // restarts within a minute
	mostAlike = 5           // problems of one kind that Worst leaves
)

// Outboxes are those that the relays of processes tell of.
func Outboxes(processes []Process) []beat.Outbox {
	pulses := map[string]*beat.Pulse{}
	for i := range processes {
		pulses[processes[i].Identity] = processes[i].Pulse
	}
	return beat.Outboxes(pulses)
}

// Problem is something that is wrong now: a sentence, what to do, and what it is about. Of the
// names one is set, or none.
type Problem struct {
	doctor.Finding
	Process string `json:"process,omitempty"` // its identity
	Queue   string `json:"queue,omitempty"`
	Set     string `json:"set,omitempty"` // retry or scheduled
}

// Overdue tells for how long the first jobs of the sets retry and scheduled have been due. A set
// without such a job is missing.
func (f *Fleet) Overdue(ctx context.Context) (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for name, set := range map[string]*inspect.JobSet{"retry": f.Inspector.RetrySet, "scheduled": f.Inspector.ScheduledSet} {
		first, _, err := set.Due(ctx, time.Now())
		if err != nil {
			return nil, err
		}
		if first != nil {
			all[name] = first.Overdue(time.Now())
		}
	}
	return all, nil
}

// problems collects some.
type problems []Problem

func (all *problems) find(about Problem, severity, code, do, format string, args ...any) {
	about.Finding = doctor.Finding{Severity: severity, Code: code, Text: fmt.Sprintf(format, args...), Do: do}
	*all = append(*all, about)
}

// Wrong is what is wrong now: with the processes, with the queues, and with the sets, see Overdue.
func Wrong(processes []Process, queues []Queue, overdue map[string]time.Duration) []Problem {
	var all problems
	alive := false
	storms, _ := Storms(processes, func(string, []string) (flight.Record, error) { return flight.Record{}, nil })
	all = append(all, storms...)
	for i := range processes {
		alive = alive || processes[i].Phase != Gone
		all.process(&processes[i])
	}
	if !alive {
		all.find(Problem{}, doctor.Warning, "nobody", "Start one: troupe run -C troupe.yml.", "No process runs.")
	}
	for i := range queues {
		all.queue(&queues[i])
	}
	for _, f := range doctor.Outboxes(Outboxes(processes)) {
		f.Text, f.Do = words.Sentence(f.Text), words.Sentence(f.Do)
		all = append(all, Problem{Finding: f})
	}
	for _, set := range slices.Sorted(maps.Keys(overdue)) {
		if late := overdue[set]; late > longWait {
			all.find(Problem{Set: set}, doctor.Danger, "overdue", "Start a process: each one moves due jobs into their queues.",
				"The first job of the set %s is overdue by %s, and nobody puts it into its queue.", set, words.Brief(late))
		}
	}
	return all
}

func (all *problems) process(p *Process) {
	about, name := Problem{Process: p.Identity}, p.name()
	last := words.Brief(time.Since(p.Beat)) + " ago, with " + words.Plural(p.Busy, "job")
	switch p.Phase {
	case Gone:
		all.find(about, doctor.Danger, "gone", "See why it died in its log. A live process of troupe puts its jobs back within a minute.",
			"%s is gone: its last beat was %s.", name, last)
		return
	case Silent:
		all.find(about, doctor.Warning, "silent", "Look at its host and its connection to Redis.", "%s is silent: its last beat was %s.", name, last)
	}
	if p.Pulse == nil {
		return
	}
	failure := lastFailure(p)
	switch n := p.Pulse.Recent; {
	case p.Storming(): // one problem for all that have the same cause
	case n > 0:
		all.find(about, doctor.Note, "restarts", "", "%s has had %s within a minute.%s", name, words.Plural(n, "restart"), failure)
	}
	if n := p.Pulse.Unresponsive; n > 0 {
		all.find(about, doctor.Warning, "unresponsive", "Their code does not look at its context. The tree of the process has their stacks.",
			"%s has %s: cancelled, and still at work.", name, words.Plural(n, "unresponsive job"))
	}
	if why := p.Pulse.Log; why != "" {
		all.find(about, doctor.Warning, "log", "Look at what reads its stderr. Its jobs go on.", "The log of %s is %s: %s dropped.", name, why, words.Plural(int64(p.Pulse.Dropped), "line"))
	}
	if p.Phase == Quiet || p.Phase == Stopping { // parts of it are down on purpose
		return
	}
	for _, actor := range slices.Sorted(maps.Keys(p.Pulse.Actors)) {
		all.find(about, doctor.Warning, "actor", "Its supervisor restarts it by itself; if it stays so, restart the process.",
			"In %s the actor %s is %s.%s", name, actor, p.Pulse.Actors[actor], failure)
	}
	for _, c := range p.Pulse.Capsules {
		if n := c.Down + c.Held; n > 0 && !p.Storming() {
			all.find(about, doctor.Warning, "down", "They come back by themselves; until then less is done.",
				"In %s the capsule %s has %s down.%s", name, c.Name, words.Plural(n, "processor"), failure)
		}
	}
}

// name is the tag and the identity.
func (p *Process) name() string {
	if p.Tag == "" {
		return p.Identity
	}
	return p.Tag + " (" + p.Identity + ")"
}

// lastFailure tells that of a process in a sentence, with a space before it.
func lastFailure(p *Process) string {
	if p.Pulse.Failure == "" {
		return ""
	}
	return " The last failure: " + p.Pulse.Failure + "."
}

func (all *problems) queue(q *Queue) {
	about, jobs := Problem{Queue: q.Name}, words.Plural(q.Waiting, "job")
	latency := time.Duration(q.Latency * float64(time.Second))
	suspects := strings.HasSuffix(q.Name, keys.SuspectsSuffix) // those that listen on the other queue run them
	switch {
	case q.Waiting == 0:
	case q.Paused && !suspects && q.Listeners == 0:
		all.find(about, doctor.Warning, "paused", "To unpause it is not enough: a process has to listen on it, too.", "The queue %s is paused, and nobody listens: %s.", q.Name, jobs)
	case q.Paused:
		all.find(about, doctor.Note, "paused", "Unpause it when its jobs shall run.", "The queue %s is paused, with %s.", q.Name, jobs)
	case !suspects && q.Listeners == 0 && q.Quiet > 0:
		all.find(about, doctor.Danger, "quiet", "Start processes: quiet ones do not come back.", "The queue %s has %s, and all processes that listen are quiet.", q.Name, jobs)
	case !suspects && q.Listeners == 0:
		all.find(about, doctor.Danger, "nobody listens", "Let a process take from it: "+words.TakeFrom(words.Word(q.Name))+".",
			"The queue %s has %s, and nobody listens.", q.Name, jobs)
	case latency > longWait:
		all.find(about, doctor.Warning, "latency", "If all slots are busy: add processes or concurrency, or see what the running jobs are at. If not: see the tree of those that listen.", "The oldest job of the queue %s has waited for %s.", q.Name, words.Brief(latency))
	}
}

// Audited are the findings of an audit, as sentences, but for what Wrong tells as of now.
func Audited(findings []doctor.Finding) (all []Problem) {
	for _, f := range findings {
		if !slices.Contains([]string{"listeners", "overdue", "dead processes", "outboxes"}, f.Code) {
			f.Text, f.Do = words.Sentence(f.Text), words.Sentence(f.Do)
			all = append(all, Problem{Finding: f})
		}
	}
	return all
}

// Worst sorts problems, the worst first, and leaves of many of a kind the first ones, with how many
// more there are.
func Worst(all []Problem) (few []Problem) {
	rank := []string{doctor.Danger, doctor.Warning, doctor.Note}
	all = slices.SortedStableFunc(slices.Values(all), func(a, b Problem) int {
		return cmp.Compare(slices.Index(rank, a.Severity), slices.Index(rank, b.Severity))
	})
	seen, more := map[string]int{}, map[string]int{}
	for _, p := range all {
		if seen[p.Code]++; seen[p.Code] <= mostAlike {
			few = append(few, p)
			continue
		}
		if more[p.Code] == 0 {
			more[p.Code] = len(few)
			few = append(few, Problem{Finding: doctor.Finding{Severity: p.Severity, Code: p.Code}})
		}
		few[more[p.Code]].Text = fmt.Sprintf("And %d more like these (%s).", seen[p.Code]-mostAlike, p.Code)
	}
	return few
}
