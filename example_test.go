package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/troupehq/troupe"
)

type ChargeCard struct {
	AccountID int64  `arg:"0"`
	Cents     int64  `arg:"1"`
	Currency  string `arg:"2"` // ISO 4217
}

func (ChargeCard) Class() string { return "Billing::ChargeCard" }
func (ChargeCard) Defaults() troupe.Options {
	return troupe.Options{Queue: "critical", Retries: troupe.Times(5)}
}

var errDeclined = errors.New("card declined")

// A typed handler, run here by hand as the daemon would run it.
func ExampleHandle() {
	jobs := troupe.NewRegistry()
	troupe.Handle(jobs, func(ctx context.Context, j *troupe.Job[ChargeCard]) error {
		fmt.Printf("%s: charge %d with %d %s\n", j.JID, j.Args.AccountID, j.Args.Cents, j.Args.Currency)
		if j.Args.Cents > 1000 {
			return troupe.Discard(errDeclined)
		}
		return nil
	}, troupe.Timeout(time.Minute))

	p, _ := troupe.ParsePayload([]byte(`{"class":"Billing::ChargeCard","args":[42,1999,"EUR"],"jid":"0d6ec0d6a7e2450f8a158dc8"}`))
	entry, _ := jobs.Lookup(p.HandlerClass())
	err := entry.Handler.Perform(context.Background(), p)

	var outcome *troupe.OutcomeError
	fmt.Println(errors.As(err, &outcome) && outcome.Discard, err)
	// Output:
	// 0d6ec0d6a7e2450f8a158dc8: charge 42 with 1999 EUR
	// true card declined
}

// A raw handler reads the payload itself; middleware wraps every handler.
func ExampleHandleClass() {
	logged := func(next troupe.Handler) troupe.Handler {
		return troupe.HandlerFunc(func(ctx context.Context, p *troupe.Payload) error {
			err := next.Perform(ctx, p)
			fmt.Println(p.Class(), p.JID(), "error:", err)
			return err
		})
	}
	var jobs troupe.Registry
	troupe.HandleClass(&jobs, "Echo", troupe.HandlerFunc(func(_ context.Context, p *troupe.Payload) error {
		fmt.Println(string(p.Args()))
		return nil
	}))

	p, _ := troupe.ParsePayload([]byte(`{"class":"Echo","args":["hi",123456789012345678901234567890],"jid":"j1"}`))
	entry, _ := jobs.Lookup("Echo")
	handler, _ := entry.Chain(logged)
	_ = handler.Perform(context.Background(), p)
	// Output:
	// ["hi",123456789012345678901234567890]
	// Echo j1 error: <nil>
}

// Editing keeps every other byte, here a number text and an unknown field.
func ExamplePayload() {
	p, err := troupe.ParsePayload([]byte(`{"class":"Report","args":[1e3],"custom":{"b":1.10}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p.SetInt("retry_count", 0)
	p.SetTime("failed_at", time.Unix(1795225014, 0), troupe.TimestampsFloat)
	fmt.Println(string(p.Bytes()))
	// Output:
	// {"class":"Report","args":[1e3],"custom":{"b":1.10},"retry_count":0,"failed_at":1795225014.0}
}

func ExampleParsePayload() {
	for _, raw := range []string{`{"class":"A"`, `[1]`, `{"class":"A"}`} {
		p, err := troupe.ParsePayload([]byte(raw))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(p.Class())
	}
	// Output:
	// invalid payload at byte 12: unexpected end
	// invalid payload at byte 0: not an object but an array
	// A
}

// Sum takes any number of arguments, like Ruby's perform(title, *numbers).
type Sum struct {
	Title   string  `arg:"0"`
	Numbers []int64 `arg:"*"`
}

func (Sum) Class() string { return "Sum" }

func ExampleArgs() {
	var sum Sum
	fmt.Println(troupe.DecodeArgs([]byte(`["primes",2,3,5]`), &sum), sum.Title, sum.Numbers)
	// Output: <nil> primes [2 3 5]
}

func ExampleDecodeArgs() {
	var args ChargeCard
	fmt.Println(troupe.DecodeArgs([]byte(`[42,1999,"EUR"]`), &args), args.Cents)
	fmt.Println(troupe.DecodeArgs([]byte(`[42,1999]`), &args))
	fmt.Println(troupe.DecodeArgs([]byte(`[42,"1999","EUR"]`), &args))
	// Output:
	// <nil> 1999
	// args: expected 3 arguments, got 2
	// args[1] (Cents): expected int64, got a string
}

func ExamplePayload_SetJSON() {
	var p troupe.Payload
	_ = p.SetJSON("custom", []any{100.0, "<&>", map[string]int{"b": 2, "a": 1}})
	fmt.Println(string(p.Bytes()))
	// Output: {"custom":[100.0,"<&>",{"a":1,"b":2}]}
}

func ExampleErrorClass() {
	fmt.Println(troupe.ErrorClass(fmt.Errorf("perform: %w", &troupe.ArgsError{})))
	fmt.Println(troupe.ErrorClass(errDeclined))
	// Output:
	// troupe.ArgsError
	// error
}
