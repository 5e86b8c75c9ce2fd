package testdata

import "context"

var gateway interface {
	Charge(ctx context.Context, id string, account, cents int64, currency string) error
}
