package testdata

import (
	"context"
	"errors"
)

var (
	// ErrBusy is an error of the CRM.
	ErrBusy = errors.New("busy")
	// ErrGone is another.
	ErrGone = errors.New("gone")
)

// CRM is what jobs are for.
type CRM struct{}

// Sync brings an account up to date.
func (c *CRM) Sync(context.Context, int64) error { return nil }
