// Package testdata has what the blocks of the documentation take for granted.
package testdata

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
)

var (
	ctx  context.Context
	rdb  *redis.Client
	jobs troupe.Registry
	t    *testing.T
)
