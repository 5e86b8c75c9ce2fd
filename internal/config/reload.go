package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/limits"
)

// Reload is what a running daemon of s may take over from next: concurrency and queues of its
// capsules, and the numbers of its limits. ignored are the lines of next's Summary that differ otherwise: they take a
// restart. The shard is that of s, "" for the only Redis.
func (s *Settings) Reload(next *Settings, shard string) (capsules []actors.Capsule, numbers []troupe.Limit, ignored []string, err error) {
	if at := slices.IndexFunc(next.Trees, func(t Tree) bool { return t.Shard == shard }); at >= 0 {
		next = next.Trees[at].Settings
	}
	same := *next // but for what can change
	same.Capsules = slices.Clone(next.Capsules)
	for i, k := range next.Capsules {
		at := slices.IndexFunc(s.Capsules, func(c capsule) bool { return c.Name == k.Name })
		if at < 0 {
			return nil, nil, nil, fmt.Errorf("%s: the capsule %q is new: that takes a restart", next.Path, k.Name)
		}
		if k.Queues == nil {
			k.Queues = fetch.Strict{"default"}
		}
		capsules = append(capsules, actors.Capsule{Name: k.Name, Concurrency: cmp.Or(k.Concurrency, limits.Concurrency), Queues: k.Queues})
		same.Capsules[i].Concurrency, same.Capsules[i].Queues = s.Capsules[at].Concurrency, s.Capsules[at].Queues
	}
	for _, k := range s.Capsules {
		if !slices.ContainsFunc(next.Capsules, func(c capsule) bool { return c.Name == k.Name }) {
			return nil, nil, nil, fmt.Errorf("%s: the capsule %q is gone: that takes a restart", next.Path, k.Name)
		}
	}
	same.JobLimits = slices.Clone(next.JobLimits)
	for i, l := range next.JobLimits {
		at := slices.IndexFunc(s.JobLimits, func(e limitEntry) bool { return e.Name == l.Name })
		if at >= 0 && job.SameKind(&s.JobLimits[at].Limit, &l.Limit) {
			numbers = append(numbers, l.Limit)
			same.JobLimits[i].Limit = s.JobLimits[at].Limit
		}
	}
	before := s.lines()
	for _, line := range same.lines() {
		if !slices.Contains(before, line) {
			ignored = append(ignored, line)
		}
	}
	return capsules, numbers, ignored, nil
}

// lines are those of the Summary, without its columns.
func (s *Settings) lines() (lines []string) {
	var b strings.Builder
	_ = s.Summary(&b) // what cannot be built is a fault of Load's
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}
