package explain

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/words"
)

// held looks among the jobs that limits hold.
func (s *search) held() (bool, error) {
	note(&s.x.Searched, "held")
	e, err := s.i.FindHeld(s.ctx, s.x.JID)
	if err != nil {
		if errors.Is(err, inspect.ErrNotFound) || s.spoilt("held", err) {
			return false, nil
		}
		return false, err
	}
	s.x.Place, s.x.Entry = "held", e
	s.found(&e.JobRecord, e.Held.Since)
	all, err := s.i.LimitRule(s.ctx, e.Held.Rule)
	if errors.Is(err, inspect.ErrNotFound) {
		return true, nil // it was let in since
	}
	if err != nil {
		return false, err
	}
	before, err := e.Ahead(s.ctx)
	if err != nil {
		return false, err
	}
	l := all[0]
	for _, one := range all {
		if one.Queue != "" && e.Set.Name == one.Rules[0].Jobs().Name {
			l = one
		}
	}
	rule, name := s.rule(e.Held.Rule), words.Word(l.Name)
	since := words.At(e.Held.Since)
	ahead := "No job is before it."
	if before > 0 {
		ahead = fmt.Sprintf("%s before it.", words.Count(before)+map[bool]string{true: " is", false: " are"}[before == 1])
	}
	switch {
	case !l.Allows.Defined():
		s.because("held", "The limit %s holds it since %s. That limit is not defined, and lets nobody in. %s", rule, since, ahead)
		s.x.Next = "Nothing, until a process starts whose configuration has the limit, or troupe limits set " + name + " sets it."
		return true, nil
	case l.Allows.AtOnce == 0 && l.Allows.Every == 0:
		s.because("held", "The limit %s holds it since %s. It allows 0 at once, which lets nobody in. %s", rule, since, ahead)
		s.x.Next = "Nothing, until the limit allows more: troupe limits set " + name + ", or troupe limits reset " + name + "."
		return true, nil
	}
	if r := l.Rules[0]; !r.Rests.IsZero() {
		s.because("held", "The limit %s holds it since %s. It allows %s, and its breaker is open: it %s, and lets one job in then. %s", rule, since, l.Allows, words.Rests(r.Rests), ahead)
		s.x.Next = "It starts when a job that is let in is done, the jobs before it first. troupe limits rest " + s.named(r) + " 0 ends the rest."
		return true, nil
	}
	slots := ""
	if r := l.Rules[0]; r.Taken > 0 && l.Allows.Every == 0 {
		var jids []string
		for _, slot := range r.Slots[:min(len(r.Slots), shownSlots)] {
			jids = append(jids, slot.JID)
		}
		more := ""
		if r.Taken > int64(len(jids)) {
			more = ", and others"
		}
		slots = " Its slots have " + strings.Join(jids, ", ") + more + "."
	}
	s.because("held", "The limit %s holds it since %s. It allows %s.%s %s", rule, since, l.Allows, slots, ahead)
	s.x.Next = "It starts when the limit has room, the jobs before it first."
	if s.nobody() {
		s.because("no_process", "No process runs that lets it in.")
		s.x.Next = "Nothing, until a process is started."
	}
	return true, nil
}

// shownSlots is how many jobs are named that have slots.
const shownSlots = 10

// rule is a rule for people.
func (s *search) rule(id string) string {
	name, key, _ := strings.Cut(id, ":")
	return words.Head(s.fleet.Mask.Rule(job.NameOfRule(name), key))
}

// named is a rule as commands take it: one whose key is masked by its limit.
func (s *search) named(r *inspect.LimitRule) string {
	if id := r.Name + ":" + r.Key; r.Key != "" && s.fleet.Mask.Rule(r.Name, r.Key) == id {
		return words.Word(id)
	}
	return words.Word(r.Name)
}

// limited tells which limits a job is under that runs.
func (s *search) limited() error {
	if s.x.Place != "running" && s.x.Place != "in progress" {
		return nil
	}
	all, _, err := s.i.Limits(s.ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		for _, r := range l.Rules {
			has := slices.ContainsFunc(r.Slots, func(slot inspect.LimitSlot) bool { return slot.JID == s.x.JID })
			if !has && r.Taken > int64(len(r.Slots)) {
				if has, err = r.HasSlot(s.ctx, s.x.JID); err != nil {
					return err
				}
			}
			if has {
				s.because("limited", "It has a slot of the limit %s, which allows %s.", s.rule(r.ID), l.Allows)
			}
		}
	}
	return nil
}
