// Package audit keeps in Redis who has done what to the jobs, queues and processes: on the dashboard and by
// its JSON, by commands and on the screen of top.
package audit

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// What is kept.
const (
	Most         = 10_000 // entries
	MostStranger = 1000   // of people who are not signed in: they push nothing else out
	Age          = 90 * 24 * time.Hour
)

// The ways to act beside the dashboard.
const (
	Command = "command"
	Screen  = "top"
)

// MostJobs is how many jobs an entry names.
const MostJobs = 20

// Entry is who has done what, or tried to.
type Entry struct {
	At      time.Time         `json:"at"`
	User    string            `json:"user"`
	Role    string            `json:"role,omitempty"` // on the dashboard
	Via     string            `json:"via,omitempty"`  // Command or Screen; "" is the dashboard
	Address string            `json:"address"`        // or, of a command, the host
	Action  string            `json:"action"`
	Path    string            `json:"path"`
	Jobs    []string          `json:"jobs,omitempty"` // the ids of those that were named, MostJobs at most
	Filter  map[string]string `json:"filter,omitempty"`
	Outcome string            `json:"outcome"` // done, begun, warning, refused or failed
	Task    string            `json:"task,omitempty"`
	Text    string            `json:"text,omitempty"`
	Counts  json.RawMessage   `json:"counts,omitempty"`
}

// Add writes an entry. Stranger is for one of somebody who is not signed in.
func Add(ctx context.Context, rdb redis.UniversalClient, e *Entry, stranger bool) error {
	key, kept := keys.Audit, int64(Most)
	if stranger {
		key, kept = keys.AuditRefused, MostStranger
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	var last *redis.StringCmd
	if _, err = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.LPush(ctx, key, text)
		pipe.LTrim(ctx, key, 0, kept-1)
		pipe.Expire(ctx, key, Age)
		last = pipe.LIndex(ctx, key, -1)
		return nil
	}); err != nil {
		return err
	}
	var oldest Entry
	if json.Unmarshal([]byte(last.Val()), &oldest) == nil && time.Since(oldest.At) > Age {
		return rdb.LRem(ctx, key, -1, last.Val()).Err()
	}
	return nil
}

// Filter chooses entries. The zero value chooses all.
type Filter struct {
	User, Outcome string // whole
	Part          string // of what was done, in any case of letters: an action, a job, a class, a queue
	Since, Until  time.Time
}

// Match reports whether f chooses an entry.
func (f *Filter) Match(e *Entry) bool {
	path, _ := url.PathUnescape(e.Path)
	texts := append(slices.Collect(maps.Values(e.Filter)), e.Action, e.Path, path, e.Text, e.Task, strings.Join(e.Jobs, "\n"))
	return (f.User == "" || e.User == f.User) && (f.Outcome == "" || e.Outcome == f.Outcome) &&
		!e.At.Before(f.Since) && (f.Until.IsZero() || e.At.Before(f.Until)) &&
		strings.Contains(strings.ToLower(strings.Join(texts, "\n")), strings.ToLower(f.Part))
}

// All returns the entries of the last 90 days, the newest first.
func All(ctx context.Context, rdb redis.UniversalClient) ([]Entry, error) {
	var all []Entry
	for _, key := range []string{keys.Audit, keys.AuditRefused} {
		texts, err := rdb.LRange(ctx, key, 0, Most-1).Result()
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			var e Entry
			if json.Unmarshal([]byte(text), &e) == nil && time.Since(e.At) <= Age {
				all = append(all, e)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return b.At.Compare(a.At) })
	return all, nil
}
