// Package audit keeps in Redis who has done what to the jobs and processes by the dashboard.
package audit

import (
	"context"
	"encoding/json"
	"slices"
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

// Entry is who has done what, or tried to.
type Entry struct {
	At      time.Time         `json:"at"`
	User    string            `json:"user"`
	Role    string            `json:"role"`
	Address string            `json:"address"`
	Action  string            `json:"action"`
	Path    string            `json:"path"`
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
