package testdata

import (
	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

var (
	log     zerolog.Logger
	options *redis.Options
	overdue []ChargeCard
)
