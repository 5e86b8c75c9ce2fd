package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/internal/limits"
)

// Reload is what a running daemon of s may take over from next: concurrency and queues of its
// capsules. ignored are the lines of next's Summary that differ otherwise: they take a
// restart. The shard is that of s, "" for the only Redis.
func (s *Settings) Reload(next *Settings, shard string) (capsules []actors.Capsule, ignored []string, err error) {
	if at := slices.IndexFunc(next.Trees, func(t Tree) bool { return t.Shard == shard }); at >= 0 {
		next = next.Trees[at].Settings
	}
	same := *next // but for what can change
	same.Capsules = slices.Clone(next.Capsules)
	for i, k := range next.Capsules {
		at := slices.IndexFunc(s.Capsules, func(c capsule) bool { return c.Name == k.Name })
		if at < 0 {
			return nil, nil, fmt.Errorf("%s: the capsule %q is new: that takes a restart", next.Path, k.Name)
		}
		if k.Queues == nil {
			k.Queues = fetch.Strict{"default"}
		}
		capsules = append(capsules, actors.Capsule{Name: k.Name, Concurrency: cmp.Or(k.Concurrency, limits.Concurrency), Queues: k.Queues})
		same.Capsules[i].Concurrency, same.Capsules[i].Queues = s.Capsules[at].Concurrency, s.Capsules[at].Queues
	}
	for _, k := range s.Capsules {
		if !slices.ContainsFunc(next.Capsules, func(c capsule) bool { return c.Name == k.Name }) {
			return nil, nil, fmt.Errorf("%s: the capsule %q is gone: that takes a restart", next.Path, k.Name)
		}
	}
	before := s.lines()
	for _, line := range same.lines() {
		if !slices.Contains(before, line) {
			ignored = append(ignored, line)
		}
	}
	return capsules, ignored, nil
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
