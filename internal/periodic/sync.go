package periodic

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/keys"
)

// Sync writes the entries of a configuration with this tag and takes away those that it has written
// before and no longer has; without a tag nothing is taken away. Entries of others stay as they
// are. It returns the names of what it took away.
func (s *Store) Sync(ctx context.Context, tag string, list []troupe.Periodic) (removed []string, err error) {
	all, err := s.All(ctx)
	if err != nil {
		return nil, err
	}
	r, space, gone := record{Digest: digest(list), At: time.Now()}, spaceOf(all), []*Entry(nil)
	list = slices.Clone(list)
	for _, e := range all {
		if !e.Own || e.Tag != tag {
			continue
		}
		i := slices.IndexFunc(list, func(p troupe.Periodic) bool {
			return p.Name == e.Name && (p.Namespace == e.Namespace || p.Namespace == "")
		})
		switch {
		case i < 0 && tag != "":
			gone, removed = append(gone, e), append(removed, e.Name)
		case i >= 0 && list[i].Namespace == "" && e.Namespace != space && (e.Namespace == "" || e.Namespace == usualSpace):
			gone, list[i].Disabled = append(gone, e), list[i].Disabled || e.Disabled // it moves to Ruby's
		}
	}
	if err := s.save(ctx, tag, list, space); err != nil {
		return nil, err
	}
	if len(gone) > 0 {
		if err := s.Remove(ctx, gone...); err != nil {
			return nil, err
		}
	}
	for _, p := range list {
		r.Namespaces = append(r.Namespaces, cmp.Or(p.Namespace, space))
	}
	slices.Sort(r.Namespaces)
	r.Namespaces = slices.Compact(r.Namespaces)
	text, err := job.EncodeJSON(r)
	if err != nil {
		return removed, err
	}
	if err := s.Redis.HSet(ctx, keys.Periodic, tag, text).Err(); err != nil {
		return removed, fmt.Errorf("write periodic jobs: %w", err)
	}
	return removed, s.changed(ctx)
}

// Written tells whether Redis has the entries of the configuration with this tag where they belong, and
// whether it was this one that has written them. If it has not, they are to be written again: Redis has forgotten
// them, or Ruby has come since and keeps its own in another namespace.
func (s *Store) Written(ctx context.Context, tag string, list []troupe.Periodic) (known, same bool, err error) {
	pipe := s.Redis.Pipeline()
	records, old, usual := pipe.HGetAll(ctx, keys.Periodic), pipe.Exists(ctx, keys.PeriodicSet("")), pipe.Exists(ctx, keys.PeriodicSet(usualSpace))
	if _, err := pipe.Exec(ctx); err != nil {
		return false, false, fmt.Errorf("read periodic jobs: %w", err)
	}
	text, known := records.Val()[tag]
	var r record
	_ = json.Unmarshal([]byte(text), &r)
	if known && old.Val() > 0 && usual.Val() > 0 && slices.ContainsFunc(list, func(p troupe.Periodic) bool { return p.Namespace == "" }) {
		all, err := s.All(ctx)
		if err != nil {
			return false, false, err
		}
		known = slices.Contains(r.Namespaces, spaceOf(all))
	}
	return known, r.Digest == digest(list), nil
}

// digest is the same for the same entries.
func digest(list []troupe.Periodic) string {
	sum := sha256.New()
	for _, p := range list {
		d, err := newDraft(p, "", time.UTC)
		_, _ = fmt.Fprintln(sum, p.Namespace, err)
		if err == nil {
			_ = json.NewEncoder(sum).Encode(d.hash)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
