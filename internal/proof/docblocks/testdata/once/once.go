// Package once has what the page about effects that are there once takes for granted.
package once

import (
	"context"
	"database/sql"
)

var db *sql.DB

var payments service

// service stands for an API of others.
type service struct{}

// Charge asks for a payment.
func (service) Charge(context.Context, string, any) error { return nil }
