package troupe_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/troupehq/troupe"
)

// A handler that was told to come back later has the limit of its job rest until then, in all processes.
func ExampleRest() {
	call := func() (retryAfter string, err error) { return "30", errors.New("429 Too Many Requests") }
	handler := func(ctx context.Context, _ *troupe.Job[ChargeCard]) error {
		retryAfter, err := call()
		if seconds, _ := strconv.Atoi(retryAfter); seconds > 0 {
			if err := troupe.Rest(ctx, "payments-api", time.Duration(seconds)*time.Second); err != nil {
				return err
			}
		}
		return err
	}
	var jobs troupe.Registry
	troupe.Handle(&jobs, handler, troupe.Options{Limits: []troupe.Limit{
		{Name: "payments-api", Rate: 100, Breaker: &troupe.Breaker{Failures: 5, Rest: time.Minute}},
	}})
	fmt.Println(troupe.Rest(context.Background(), "payments-api", time.Second)) // outside of a job
	// Output: rest of limit "payments-api": the context is not that of a running job of a daemon
}
