package testdata

import (
	"context"

	"github.com/troupehq/troupe"
)

// A handler of the page about limits.

func charge(context.Context, *troupe.Payload) error { return nil }
