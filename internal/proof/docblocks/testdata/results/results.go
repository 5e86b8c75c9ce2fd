package testdata

import "context"

// Resize is a job with a result.
type Resize struct{ Path string }

func (Resize) Class() string { return "Resize" }

type Thumb struct{ Bytes int }

func resize(context.Context, Resize) (Thumb, error) { return Thumb{}, nil }

// Import is a job that tells its progress.
type Import struct{ Path string }

func (Import) Class() string { return "Import" }

func read(context.Context, Import) ([]string, error) { return nil, nil }

func insert(context.Context, string) error { return nil }
