package testdata

import "context"

// thumbnail makes one.
func thumbnail(context.Context, int) error { return nil }
