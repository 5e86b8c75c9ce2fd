// Package batches has what the blocks of docs/batches.md take for granted.
package batches

import (
	"context"

	"github.com/troupehq/troupe/client"
)

// Jobs of the page about batches.

var files []string

type Import struct{ File string }

type Publish struct{}

type Alert struct{}

type Summary struct{}

type Transform struct{}

type Load struct{}

func (Import) Class() string    { return "Import" }
func (Publish) Class() string   { return "Publish" }
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
