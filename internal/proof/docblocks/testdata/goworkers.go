package testdata

import "context"

// deliver sends a mail.
func deliver(context.Context, string, string) error { return nil }
