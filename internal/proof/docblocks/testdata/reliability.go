package testdata

import "context"

// Shop has the handlers.
type Shop struct{}

func (*Shop) load(context.Context, string) error { return nil }

// Import are the arguments of a job.
type Import struct{ Parts []string }

// Class is its name.
func (Import) Class() string { return "Import" }
