// Package jobtests is a small service with jobs, and its tests: how a project
// that uses troupe tests its pushes, its handlers and its behaviour in failure.
package jobtests

import (
	"context"
	"errors"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
)

// ChargeCard takes money from an account.
type ChargeCard struct {
	AccountID int64  `arg:"0"`
	Cents     int64  `arg:"1"`
	Currency  string `arg:"2"`
}

// Class is its name on the wire.
func (ChargeCard) Class() string { return "Billing::ChargeCard" }

// Defaults are the options of all its jobs, as sidekiq_options sets them in Ruby.
func (ChargeCard) Defaults() troupe.Options {
	return troupe.Options{Queue: "critical", Retries: troupe.Times(5)}
}

// SendReceipt mails what was charged.
type SendReceipt struct {
	AccountID int64 `arg:"0"`
	Cents     int64 `arg:"1"`
}

// Class is its name on the wire.
func (SendReceipt) Class() string { return "ReceiptMail" }

// ErrDeclined is the bank's final no.
var ErrDeclined = errors.New("card declined")

// Gateway is the bank.
type Gateway interface {
	Charge(ctx context.Context, id string, account, cents int64, currency string) error
}

// Billing has the handlers, and pushes the jobs that follow.
type Billing struct {
	Gateway Gateway
	Jobs    *client.Client
}

// Checkout takes an order.
func (b *Billing) Checkout(ctx context.Context, account, cents int64) error {
	_, err := b.Jobs.Push(ctx, ChargeCard{AccountID: account, Cents: cents, Currency: "EUR"})
	return err
}

// Charge performs ChargeCard. The job's id makes a second charge harmless.
func (b *Billing) Charge(ctx context.Context, j *troupe.Job[ChargeCard]) error {
	err := b.Gateway.Charge(ctx, j.JID, j.Args.AccountID, j.Args.Cents, j.Args.Currency)
	if errors.Is(err, ErrDeclined) {
		return troupe.Discard(err)
	}
	if err != nil {
		return err
	}
	_, err = b.Jobs.Push(ctx, SendReceipt{AccountID: j.Args.AccountID, Cents: j.Args.Cents}, client.In(time.Minute))
	return err
}

// Receipt performs SendReceipt.
func (b *Billing) Receipt(context.Context, *troupe.Job[SendReceipt]) error { return nil }

// Registry has all handlers.
func (b *Billing) Registry() *troupe.Registry {
	r := new(troupe.Registry)
	troupe.Handle(r, b.Charge)
	troupe.Handle(r, b.Receipt)
	return r
}
