package client

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/script"
)

//go:embed pushonce.lua
var pushOnceSource string

var pushOnce = script.New("client.pushonce", pushOnceSource)

// markerTime is how long a batch is remembered: longer than anybody repeats it.
const markerTime = 24 * time.Hour

// sendOnce sends a batch by a script that takes each number once.
func (b *buffer) sendOnce(ctx context.Context, rdb *redis.Client, batch []entry, number uint64) ([]error, error) {
	return sendNumbered(ctx, rdb, keys.Pushed(b.token), number, batch)
}

// refusal is an error reply that came inside of another.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError implements redis.Error.
func (refusal) RedisError() {}

var _ redis.Error = refusal("")
