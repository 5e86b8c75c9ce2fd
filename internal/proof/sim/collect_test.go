package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/fetch"
)

// In a part of the plans jobs are performed several in one call. Each has a run of its own for the book: it begins and ends with
// the call, and has an outcome of its own.

// several is the class of jobs that are collected.
type several struct{}

func (several) Class() string { return "Many" }

// collects is how they are collected.
var collects = troupe.Collect{Max: 3, Wait: time.Second}

func drawMany(t *rapid.T, p *Plan) {
	for i := range p.Jobs {
		j := &p.Jobs[i]
		if draw(t, "collected", 0, 3) == 0 || j.Kills != Innocent || j.Unique.Group > 0 {
			continue
		}
		j.Many, j.Items = true, 0
		j.After, j.Lasts = span(t, "after", [2]int{0, 5}, [2]int{0, 400}), min(j.Lasts, 3*time.Second)
		if j.Fails == 0 && draw(t, "fails", 0, 2) == 2 {
			j.Fails = 1
		}
	}
}

// performed is a job of a call.
type performed struct {
	*troupe.Job[several]
	s    *state
	push *pushing
	run  *ruled
}

// collected handles the jobs that are collected.
func (p *process) collected(reg *troupe.Registry, opts troupe.Options) {
	troupe.HandleMany(reg, func(ctx context.Context, jobs []*troupe.Job[several]) []error {
		call := make([]*performed, len(jobs))
		for i, j := range jobs {
			call[i] = &performed{Job: j, s: p.w.book.job("j" + strings.TrimLeft(j.JID, "0"))}
		}
		errs := make([]error, len(jobs))
		if err := p.perform(ctx, call, errs); err != nil {
			for i := range errs {
				errs[i] = err
			}
		}
		if b := p.w.bug; b != nil && b.outcomes != nil {
			b.outcomes(errs)
		}
		return errs
	}, collects, opts)
}

// perform makes a call. An error is that of all jobs.
func (p *process) perform(ctx context.Context, call []*performed, errs []error) error {
	w := p.w
	defer func() {
		for _, j := range call {
			w.book.leavesLimits(j.run)
		}
	}()
	var names []string
	var lasts time.Duration
	stop := ctx.Done()
	for _, j := range call {
		names = append(names, j.s.name)
		lasts = max(lasts, j.s.plan.Lasts)
		if j.s.plan.Unresponsive {
			stop = nil
		}
	}
	text := strings.Join(names, " ")
	if !w.wait(p.owner, p.gone, nil, "starts "+text, time.Time{}, func() {
		for _, j := range call {
			w.book.runs(p.owner, j.s)
			j.run = w.book.begins(p, j.s)
			j.push = w.book.pushes(p.owner, j.s, -1)
		}
		w.seen["job of a call of "+string(rune('0'+len(call)))] += len(call)
	}) {
		return errGone
	}
	for _, j := range call {
		own := j.Context()
		if err := j.push.push(own, w); err != nil && own.Err() == nil {
			return p.notKept(ctx, err)
		}
		p.rest(own, j.s)
		p.setResult(own, j.s, j.push)
	}
	if !w.wait(p.owner, p.gone, stop, "ends "+text, time.Now().Add(lasts), func() {
		for i, j := range call {
			errs[i] = w.book.ends(p.owner, j.s)
			j.push.well = errs[i] == nil
		}
	}) {
		return context.Cause(ctx)
	}
	return nil
}

// collectBugs are those that are to be found by jobs that are performed in one call.
func collectBugs() []seededBug {
	return []seededBug{
		{"one outcome for all jobs of a call", bug{plan: together, outcomes: func(errs []error) {
			for i := range errs {
				errs[i] = errs[0]
			}
		}}, "is lost|is done, and stands in|is acked, and"},
		{"outcomes in another order", bug{plan: together, outcomes: slices.Reverse[[]error]}, "is lost|is done, and stands in|is acked, and"},
		{"jobs that are acked before their call ends", bug{plan: together, fetcher: wrapped(func(f fetch.Isolator, _ fetch.Env) fetch.Fetcher { return &ackFirst{f} })}, "is lost"},
	}
}

// together has jobs be performed in one call, of which every second one fails.
func together(p *Plan) {
	p.Faults, p.Troubles, p.Peers, p.Limits = nil, nil, 0, nil
	for i := range p.Jobs {
		p.Jobs[i] = Job{Queue: "a", Many: true, Lasts: time.Second, Fails: i % 2}
	}
}
