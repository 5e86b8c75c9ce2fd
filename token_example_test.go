package troupe_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/troupehq/troupe"
)

// A run after a crash asks for the same payment as the one that has crashed. Outside of a job there is no token.
func ExampleToken() {
	charge := func(ctx context.Context, _ *troupe.Job[ChargeCard]) error {
		key, err := troupe.Token(ctx, "charge")
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://pay.example/charges", strings.NewReader(`{"cents": 100}`))
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		return res.Body.Close()
	}
	fmt.Println(charge(context.Background(), nil))
	// Output: token "charge": the context belongs to no job, expected that of a handler
}
