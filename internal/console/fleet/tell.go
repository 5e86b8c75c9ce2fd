package fleet

import (
	"context"
	"errors"
	"slices"

	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/control"
)

// Tell tells live processes something, as say does, and has those of troupe hear of it at once. It
// returns the identities of those that were told, and the errors of those that refuse as they are
// parts of other programs.
func (f *Fleet) Tell(ctx context.Context, processes []Process, say func(*inspect.Process, context.Context) error) (told []string, refused []error, err error) {
	for _, p := range processes {
		switch err := say(p.Known, ctx); {
		case errors.Is(err, inspect.ErrEmbedded):
			refused = append(refused, err)
		case err != nil:
			return told, refused, err
		default:
			told = append(told, p.Identity)
		}
	}
	ours := slices.DeleteFunc(Ours(processes), func(id string) bool { return !slices.Contains(told, id) })
	return told, refused, control.Wake(ctx, f.Redis, ours...)
}
