package testdata

import (
	"context"

	"github.com/troupehq/troupe/client"
)

// Jobs of the page about batches.

var files []string

type Alert struct{}

type Summary struct{}

type Transform struct{}

type Load struct{}

func (Alert) Class() string     { return "Alert" }
func (Summary) Class() string   { return "Summary" }
func (Transform) Class() string { return "Transform" }
func (Load) Class() string      { return "Load" }

func pushExtracts(ctx context.Context, b *client.Batch) error {
	_, err := b.Push(ctx, Import{File: "a"})
	return err
}

func pushTransforms(ctx context.Context, b *client.Batch) error {
	_, err := b.Push(ctx, Import{File: "b"})
	return err
}
