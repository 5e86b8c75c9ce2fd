package testdata

import "github.com/rs/zerolog"

var (
	log            zerolog.Logger
	basket, coupon any
)
