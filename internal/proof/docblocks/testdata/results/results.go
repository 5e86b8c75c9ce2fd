package testdata

import "context"

// Resize is a job with a result.
type Resize struct{ Path string }

func (Resize) Class() string { return "Resize" }

type Thumb struct{ Bytes int }

func resize(context.Context, Resize) (Thumb, error) { return Thumb{}, nil }
