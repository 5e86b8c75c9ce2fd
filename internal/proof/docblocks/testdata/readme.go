package testdata

import (
	"context"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

var (
	log     zerolog.Logger
	options *redis.Options
	overdue []ChargeCard
)

// ChargeAll are the arguments of an iterable job.
type ChargeAll struct{ Accounts []int64 }

// Class is its name.
func (ChargeAll) Class() string { return "ChargeAll" }

// chargeOne charges an account.
func chargeOne(context.Context, int64) error { return nil }
