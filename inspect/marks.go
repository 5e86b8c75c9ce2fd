package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
)

// Mark is a deploy that Sidekiq's Deploy.mark! has noted.
type Mark struct {
	At    time.Time `json:"at"` // to the minute
	Label string    `json:"label"`
}

// Marks returns the deploys that were marked from a time to another, the oldest first. Redis keeps
// them for 90 days, in a hash for each UTC day.
func (i *Inspector) Marks(ctx context.Context, from, to time.Time) ([]Mark, error) {
	if to.Sub(from) > 90*24*time.Hour {
		from = to.AddDate(0, 0, -90)
	}
	var days []*redis.MapStringStringCmd
	var cmds []redis.Cmder
	for day := from.UTC().Truncate(24 * time.Hour); !day.After(to); day = day.AddDate(0, 0, 1) {
		fields := redis.NewMapStringStringCmd(ctx, "hgetall", keys.Marks(day))
		days, cmds = append(days, fields), append(cmds, fields)
	}
	if err := i.pipelined(ctx, cmds); err != nil {
		return nil, fmt.Errorf("read marks of deploys: %w", err)
	}
	var all []Mark
	for _, fields := range days {
		for minute, label := range fields.Val() {
			if at, err := time.Parse(time.RFC3339, minute); err == nil && !at.Before(from) && !at.After(to) {
				all = append(all, Mark{at, label})
			}
		}
	}
	slices.SortFunc(all, func(a, b Mark) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Label, b.Label)) })
	return all, nil
}
