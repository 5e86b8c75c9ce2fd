// Package shop takes orders and sends them. An order and its job are written in one transaction, and what the job does is there once,
// however often it runs.
package shop

import (
	"context"
	"database/sql"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/outbox"
)

// Ship is the job that sends an order.
type Ship struct {
	Order int64  `arg:"0"`
	Item  string `arg:"1"`
}

// Class is its name.
func (Ship) Class() string { return "Ship" }

// Carrier is somebody else's API. It does once what it is asked twice with the same key.
type Carrier interface {
	Fetch(ctx context.Context, key string, order int64) error
}

// Shop has a database, and the outbox in it.
type Shop struct {
	DB      *sql.DB
	Dialect outbox.Dialect
	Outbox  *outbox.Outbox
	Carrier Carrier
}

// Order writes an order and the job that sends it, both or neither.
func (s *Shop) Order(ctx context.Context, item string) (id int64, err error) {
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.QueryRowContext(ctx, "INSERT INTO orders (item) VALUES ($1) RETURNING id", item).Scan(&id); err != nil {
		return 0, err
	}
	if _, err := s.Outbox.Push(ctx, tx, Ship{Order: id, Item: item}); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET reserved = reserved + 1 WHERE item = $1", item); err != nil {
		return 0, err // there is none left
	}
	return id, tx.Commit()
}

// Ship has the carrier fetch the shipment, and takes the item out of the stock.
func (s *Shop) Ship(ctx context.Context, job *troupe.Job[Ship]) error {
	key, err := troupe.Token(ctx, "shipment")
	if err != nil {
		return err
	}
	if err := s.Carrier.Fetch(ctx, key, job.Args.Order); err != nil {
		return err
	}
	tx, err := s.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	first, err := outbox.Once(ctx, tx, s.Dialect, "stock")
	if err != nil || !first {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET number = number - 1, reserved = reserved - 1 WHERE item = $1", job.Args.Item); err != nil {
		return err
	}
	return tx.Commit()
}
