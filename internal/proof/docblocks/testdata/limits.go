package testdata

import (
	"context"
	"time"

	"github.com/troupehq/troupe"
)

// A handler of the page about limits, and what it calls.

func charge(context.Context, *troupe.Payload) error { return nil }

func call(*troupe.Payload) (time.Duration, error) { return 0, nil }
