package periodic

import (
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
	if err := s.save(ctx, tag, list); err != nil {
		return nil, err
	}
	all, err := s.All(ctx)
	if err != nil {
		return nil, err
	}
	r, gone := record{Digest: digest(list), At: time.Now()}, []*Entry(nil)
	for _, e := range all {
		if !e.Own || e.Tag != tag {
			continue
		}
		has := slices.ContainsFunc(list, func(p troupe.Periodic) bool {
			return p.Name == e.Name && (p.Namespace == e.Namespace || p.Namespace == "")
		})
		switch {
		case !has && tag != "":
			gone, removed = append(gone, e), append(removed, e.Name)
		case has && !slices.Contains(r.Namespaces, e.Namespace):
			r.Namespaces = append(r.Namespaces, e.Namespace)
		}
	}
	if len(gone) > 0 {
		if err := s.Remove(ctx, gone...); err != nil {
			return nil, err
		}
	}
	text, err := job.EncodeJSON(r)
	if err != nil {
		return removed, err
	}
	if err := s.Redis.HSet(ctx, keys.Periodic, tag, text).Err(); err != nil {
		return removed, fmt.Errorf("write periodic jobs: %w", err)
	}
	return removed, s.changed(ctx)
}

// Written tells whether Redis knows that a configuration with this tag has written its entries, and
// whether it was this one. If Redis has forgotten, they are to be written again.
func (s *Store) Written(ctx context.Context, tag string, list []troupe.Periodic) (known, same bool, err error) {
	all, err := s.Redis.HGetAll(ctx, keys.Periodic).Result()
	if err != nil {
		return false, false, fmt.Errorf("read periodic jobs: %w", err)
	}
	text, known := all[tag]
	var r record
	_ = json.Unmarshal([]byte(text), &r)
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
