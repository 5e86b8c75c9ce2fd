package retry_test

import (
	"fmt"
	"time"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/retry"
	"github.com/troupehq/troupe/wire"
)

// The rules of a system that counts in the field tries, tries five times and waits a minute each time.
func ExampleRules() {
	w := wire.Wire{Name: "ours", Rules: &retry.Rules{
		Retries: func(in retry.Failed) (left, never bool) {
			n, _ := in.Payload.Int("tries")
			return n < 4, false
		},
		Record: func(in retry.Failed) int64 {
			n, _ := in.Payload.Int("tries")
			in.Payload.SetInt("tries", n+1)
			in.Payload.SetString("error", in.Message)
			return n
		},
		Wait: func(retry.Failed, int64, uint64) float64 { return time.Minute.Seconds() },
	}}
	p, err := troupe.ParsePayload([]byte(`{"class":"A","args":[],"tries":3}`))
	if err != nil {
		panic(err)
	}
	in := retry.Failed{Payload: p, Queue: "default", Message: "no route to host", Now: time.Now()}
	left, _ := w.Rules.Retries(in)
	fmt.Println(left, w.Rules.Record(in), w.Rules.Wait(in, 3, 0))
	fmt.Println(string(p.Bytes()))
	left, _ = w.Rules.Retries(in)
	fmt.Println(left)
	// Output:
	// true 3 60
	// {"class":"A","args":[],"tries":4,"error":"no route to host"}
	// false
}
