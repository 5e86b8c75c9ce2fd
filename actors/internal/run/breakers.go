package run

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/event"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/errchain"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// This file is about what the end of a run tells the breakers of its limits.

// RestLimit is troupe.Rest.
func (r *Run) RestLimit(name string, d time.Duration) error {
	if r.over.Load() {
		return errors.New("the run has ended")
	}
	var rules *job.Rules
	if r.own != nil {
		rules = r.own.rules.Load()
	}
	if rules == nil {
		return errors.New("the job is under no limit")
	}
	if err := job.CanRest(rules.Limits, name); err != nil {
		return err
	}
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	if r.own.rests == nil {
		r.own.rests = map[string]time.Duration{}
	}
	r.own.rests[name] = max(d, r.own.rests[name])
	return nil
}

// said adds to rules what the end of this run tells their breakers.
func (r *Run) said(rules *job.Rules) *job.Rules {
	if rules == nil || !slices.ContainsFunc(rules.Limits, func(l *troupe.Limit) bool { return l.Breaker != nil }) {
		return rules
	}
	of := *rules
	of.Said = make([]string, len(of.IDs))
	r.own.mu.Lock()
	defer r.own.mu.Unlock()
	for i, l := range of.Limits {
		switch d := r.own.rests[l.Name]; {
		case l.Breaker == nil:
		case d > 0:
			of.Said[i] = job.SaidRest(d)
		case r.err == nil:
			of.Said[i] = job.SaidOK
		case r.failedFor(l.Breaker):
			of.Said[i] = job.SaidFailed
		}
	}
	return &of
}

// failedFor tells whether the error of the run is a failure that a breaker counts.
func (r *Run) failedFor(b *troupe.Breaker) (failed bool) {
	asked := job.AskedBy(r.err)
	if asked.Park || asked.Move || job.IsInterrupted(r.err) {
		return false
	}
	if end := r.job.ending.Load(); end != nil && end.cause != nil && !errchain.Is(end.cause, troupe.ErrJobTimeout) {
		return false // it was cancelled
	}
	for _, cause := range []error{troupe.ErrShutdown, troupe.ErrFenced, troupe.ErrCancelled} {
		if errchain.Is(r.err, cause) {
			return false
		}
	}
	failed = !asked.Kill && !asked.Discard
	if b.Counts != nil {
		defer func() {
			if v := recover(); v != nil {
				r.callbackFailed(fmt.Errorf("Breaker.Counts: %w", &troupe.PanicError{Value: v}))
			}
		}()
		return b.Counts(r.err)
	}
	return failed
}

// tellBreakers tells what became of breakers.
func (r *Run) tellBreakers(effects *fetch.Effects) {
	if effects == nil {
		return
	}
	for _, j := range effects.Breakers {
		level, text := zerolog.WarnLevel, "the breaker of a limit is open: no job is let in"
		switch {
		case j.Closed:
			level, text = zerolog.InfoLevel, "the breaker of a limit is closed: jobs are let in"
			r.publish(event.BreakerClosed{JobEvent: r.now(), Rule: j.Rule})
		case j.Again:
			text = "the breaker of a limit stays open"
			fallthrough
		default:
			r.publish(event.BreakerOpened{JobEvent: r.now(), Rule: j.Rule, Until: j.Ends, Again: j.Again})
		}
		line := r.env.Log.WithLevel(level).Str("rule", words.Text(j.Rule)).Str("jid", words.Text(r.jid)).Str("class", words.Text(r.class))
		if !j.Closed {
			line = line.Time("rests_until", j.Ends)
		}
		line.Msg(text)
	}
}
